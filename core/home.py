"""Where Coadapt keeps what a user has here."""

from __future__ import annotations

import os
from pathlib import Path


def default_home() -> str:
    """Return `$COADAPT_HOME`, else `~/.coadapt`."""
    return os.environ.get("COADAPT_HOME") or str(Path.home() / ".coadapt")
