"""`coadapt backup`, `restore`, `doctor`, `migrate` and `prune`: care of the job store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_codes import Exit
from .plain import say

if TYPE_CHECKING:
    from ..core.schemas import BackupView
    from ..deploy.store_care import Diagnosis

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
MOST_SHOWN = 10  # findings of a kind


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (backup, restore, doctor, migrate, prune):
        app.command()(command)


def backup(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="By default one among the backups of the service.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a verified backup of the job store, while the scheduler runs or not."""
    from ..client.client import NoClusterError, connect
    from ..core.errors import StoreError

    if file is not None and file.exists():
        raise StoreError(f"{file}: exists already; give another name")
    try:
        client = connect()
    except NoClusterError:
        written = _backup_here(file)
    else:
        written = client.backup(file)
    if as_json:
        _print_json(written)
    else:
        say(f"{written['path']}: {_many(written['jobs'], 'jobs')}, {size(written['bytes'])}")


def _backup_here(file: Path | None) -> BackupView:
    from ..deploy import store_care

    path, jobs = store_care.write_backup(file, store_care.settings_here())
    return {"path": str(path), "bytes": path.stat().st_size, "jobs": jobs}


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    to: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="Another store; by default that of the state directory.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a backup the job store, while no scheduler runs; the store that was there is kept beside it."""
    from dataclasses import asdict

    from ..deploy import store_care

    done = store_care.restore(file, to, store_care.settings_here())
    if as_json:
        _print_json(asdict(done))
        return
    say(f"{done.store} has the {_many(done.jobs, 'jobs')} of {file} now")
    if done.kept:
        say(f"the store that was there is {done.kept}")


def doctor(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|URL]", help="A store or a backup; by default that of the state directory."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Name what is hurt in the job store, and what a backup would bring back; exit 1 if anything is."""
    from dataclasses import asdict

    from ..deploy import store_care

    where = None if file is None else file if "://" in file else Path(file)
    found = store_care.diagnose(where, store_care.settings_here())
    if as_json:
        _print_json(asdict(found))
    else:
        say("\n".join(said(found)))
    return Exit.JOB_FAILED if found.findings else Exit.OK


def said(found: Diagnosis) -> list[str]:
    """Return what a person is told of a store."""
    many = f"{len(found.findings)} findings" if len(found.findings) != 1 else "1 finding"
    lines = [f"{found.store}: {many}" if found.findings else f"{found.store}: nothing is hurt"]
    counts = ", ".join(_many(count, table.replace("_", " ")) for table, count in found.counts.items())
    lines += [f"  version {found.version}: {counts}"] if counts else []
    lines += [f"  {found.note}"] if found.note else []
    shown: dict[str, int] = {}
    for one in found.findings:
        shown[one.kind] = shown.get(one.kind, 0) + 1
        if shown[one.kind] <= MOST_SHOWN:
            lines.append(f"  {one.kind}: {one.text}")
    lines += [
        f"  {kind}: {count - MOST_SHOWN} more, which --json has"
        for kind, count in shown.items()
        if count > MOST_SHOWN
    ]
    if found.findings:
        lines.append(found.restorable or "there is no backup that could be restored")
    return lines


def migrate(
    to: Annotated[str, typer.Option(metavar="VERSION", help="The version of the tables, such as 0002.")],
) -> None:
    """Bring the job store to a version, up or down, while no scheduler runs; a backup is written before."""
    from ..deploy import store_care

    settings = store_care.settings_here()
    before, backups = store_care.migrate(to, settings)
    where = settings.store_url or settings.store_path
    if before == to:
        say(f"{where} is of version {to} already")
    else:
        say(f"{where} is of version {to} now; before it was {before}, and a backup of that is in {backups}")


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Remove now what the settings of retention do not keep; the scheduler does so every hour by itself."""
    from ..client.client import connect

    rows = connect().prune(dry_run=dry_run)
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        say(f"{row['count']:>9,} {row['kind']}, about {size(row['bytes'])}")
    if not rows:
        say("nothing is too old or too much")
    elif dry_run:
        say(f"`coadapt prune` would remove about {size(sum(row['bytes'] for row in rows))}")


def _many(count: int, what: str) -> str:
    """Return how many there are; `what`: a plural."""
    return f"{count} {what.removesuffix('s') if count == 1 else what}"


def size(count: float) -> str:
    """Return bytes as people read them."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _print_json(document: Any) -> None:
    from ..core.json_numbers import dumps

    say(dumps(document, indent=2))
