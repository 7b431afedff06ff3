"""The scheduler that `coadapt login` was told, with its token, in a file that only its user can read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from ..core.home import default_home
from .cluster_record import ClusterRecord


@dataclass(frozen=True)
class Login:
    """A scheduler elsewhere."""

    url: str
    token: str

    @classmethod
    def load(cls, state_dir: str | Path | None = None) -> Login | None:
        """Return what is stored; None: nothing, or nothing that can be read."""
        try:
            row = json.loads(login_path(state_dir).read_text())
            return cls(str(row["url"]), str(row["token"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, state_dir: str | Path | None = None) -> None:
        """Store it."""
        write_secret(login_path(state_dir), json.dumps(asdict(self)))

    @classmethod
    def token_of(cls, url: str, state_dir: str | Path | None = None) -> str:
        """Return the token that is stored for a URL; "" if there is none."""
        login = cls.load(state_dir)
        if login is not None and login.url == url:
            return login.token
        record = ClusterRecord.load(state_dir)
        return record.token() if record is not None and record.url == url else ""


def login_path(state_dir: str | Path | None = None) -> Path:
    """Return where it is stored."""
    return Path(state_dir or default_home()) / "login.json"


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its user can read; it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.part")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
    beside.replace(path)
