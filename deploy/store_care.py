"""What an operator does to a store without a service: look it over, bring a backup back, change its version."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from ..core.errors import SecretError, StoreError
from ..core.settings import Settings
from ..scheduler.access.secret_keys import SecretKeys
from ..scheduler.access.secrets import lost
from ..scheduler.care.file_findings import file_findings
from ..scheduler.store import backup, doctor, migrating, opening, restoring, secrets
from ..scheduler.store.database import Database, shown
from ..scheduler.store.doctor import Examined, Finding
from ..scheduler.store.lock import FileLock, ServerLock
from ..scheduler.store.restoring import Restored

PLACE = "store_url"  # a file of the state directory that names a store elsewhere


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` says.

    restorable: what `restore` would bring back, a sentence; "": there is no backup.
    note: what is no fault, and good to know.
    """

    store: str
    version: str | None
    counts: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    backup: str = ""
    restorable: str = ""
    note: str = ""


def settings_here() -> Settings:
    """Return the settings of the state directory of this user, with the store that the service used last."""
    settings = Settings()
    try:
        url = (Path(settings.state_dir) / PLACE).read_text().strip()
    except OSError:
        return settings
    return Settings(store_url=url or None)


def diagnose(where: Path | str | None, settings: Settings) -> Diagnosis:
    """Look over a store, by default the one of the settings with the files that its jobs need.

    Raises: StoreError where there is none.
    """
    store = settings.store if where is None else where
    found = doctor.examine(store)
    name = shown(opening.url_of(store))
    is_own = opening.url_of(store) == opening.url_of(settings.store)
    if is_own:
        found.findings += file_findings(found.jobs, settings)
        found.findings += _secret_findings(store, settings)
    path, text = _restorable(found, settings) if is_own else ("", "")
    return Diagnosis(name, found.version, found.counts, found.findings, path, text, found.note)


def _secret_findings(store: Path | str, settings: Settings) -> list[Finding]:
    """Return a finding for each secret that no key opens; none for a store of another version."""
    keys = SecretKeys(settings.secret_keys)
    try:
        with closing(Database(opening.url_of(store))) as database:
            rows = secrets.read(database)
        known = {key.id for key in keys.all()} if rows else set()
    except SecretError as error:
        return [Finding("secret", str(error))]
    except (StoreError, SQLAlchemyError):  # which has been told
        return []
    lacking = [row for row in rows if row["key"] not in known]
    return [Finding("secret", f"{row['user']}: {lost(row['name'], row['key'], keys.where)}") for row in lacking]


def _restorable(found: Examined, settings: Settings) -> tuple[str, str]:
    """Return the newest whole backup, and what it would bring back."""
    backups = sorted(settings.backup_dir.glob("*.sqlite"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in backups:
        try:
            jobs = restoring.checked(path)
            kept = doctor.examine(path)
        except StoreError:
            continue
        newest_s = kept.newest_s
        at = "" if newest_s is None else time.strftime(", as of %Y-%m-%d %H:%M:%S", time.localtime(newest_s))
        now = found.counts.get("jobs")
        lost = "" if now is None else f"; the store counts {now} now"
        return str(path), f"`coadapt restore {path}` would bring back {jobs} jobs{at}{lost}"
    return "", ""


def write_backup(file: Path | None, settings: Settings) -> tuple[Path, int]:
    """Write a backup, for which no service needs to run; return its path and its jobs. Raises: StoreError."""
    path = file or settings.backup_dir / f"asked-{time.strftime('%Y%m%d-%H%M%S')}.sqlite"
    if path.exists():
        raise StoreError(f"{path}: exists already; give another name")
    store = settings.store
    if isinstance(store, Path) and not store.is_file():
        raise StoreError(f"{store}: there is no store; `coadapt up` makes one")
    database = Database(opening.url_of(store))
    try:
        backup.write(database, path)
        return path, restoring.checked(path)
    finally:
        database.close()


def restore(file: Path, to: str | None, settings: Settings) -> Restored:
    """Make a backup the store, by default that of the settings; the one before is kept. Raises: StoreError."""
    where = settings.store if to is None else _given(to)
    home = Path(settings.state_dir)
    folders = [home / name for name in ("logs", "checkpoints")]
    if settings.checkpoint_root is not None and "://" not in settings.checkpoint_root:
        folders.append(Path(settings.checkpoint_root))
    return restoring.restore(file, where, settings.backup_dir, folders)


def _given(to: str) -> Path | str:
    return to if "://" in to else Path(to).expanduser()


def migrate(wanted: str, settings: Settings) -> tuple[str | None, str]:
    """Bring a store that no service holds to a version, up or down, after a verified backup.

    Return the version that it had, and where the backups are. Raises: StoreError.
    """
    store, known = settings.store, migrating.versions()
    if wanted not in known:
        raise StoreError(f"--to: {wanted} is no version of the store; there are {', '.join(known)}")
    if isinstance(store, Path) and not store.is_file():
        raise StoreError(f"{store}: there is no store; `coadapt up` makes one")
    with held(store) as database:
        with database.reading() as connection:
            found = opening.version_of(connection)
        opening.bring_to_version(database, settings.backup_dir, wanted)
    return found, str(settings.backup_dir)


@contextmanager
def held(store: Path | str) -> Iterator[Database]:
    """Yield a store that no service can write meanwhile. Raises: StoreError, which names who holds it."""
    url = opening.url_of(store)
    database = Database(url)
    try:
        lock = FileLock(Path(shown(url))) if database.is_sqlite else ServerLock(database.engine, shown(url))
        try:
            yield database
        finally:
            lock.release()
    finally:
        database.close()
