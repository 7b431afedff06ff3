"""The name by which a user's jobs are known. It tells whose jobs are alike, and gives no rights."""

from __future__ import annotations

import getpass


def user_name() -> str:
    """Return the login name; "" for a process that has none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
