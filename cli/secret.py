"""`coadapt secret`: values that only processes of one's own jobs see."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .plain import printable, say

if TYPE_CHECKING:
    from rich.table import Table

    from ..client.client import Client
    from ..core.schemas import SecretRow

Name = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits and _, such as HF_TOKEN.")]


def register(app: typer.Typer, connect: Callable[[], Client], show: Callable[[Any, bool], None]) -> None:
    """Add the commands. `show`: prints data or a renderable."""
    secret_app = typer.Typer(
        help="Keep values that only processes of your own jobs see; a job file names them.", rich_markup_mode=None
    )
    app.add_typer(secret_app, name="secret")

    @secret_app.command("set")
    def set_secret(
        name: Name,
        from_file: Annotated[
            Path | None, typer.Option("--from-file", metavar="FILE", help="Whose text is the value.")
        ] = None,
    ) -> None:
        """Keep a secret, read from a file, from standard input, or typed unseen; one newline at its end goes."""
        value = _value(name, from_file)
        done = connect().set_secret(name, value)
        told = "kept" if done["new"] else "changed"
        say(f"{name} {told}{_later(done['jobs'], 'take it when they start next')}")

    @secret_app.command("list")
    def list_secrets(
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Show names and dates of your secrets; what they hold is shown nowhere."""
        rows = connect().secrets()
        if as_json or rows:
            show(rows if as_json else table(rows), as_json)
        else:
            say("no secrets; `coadapt secret set NAME` makes one")

    @secret_app.command("rm")
    def remove_secret(name: Name) -> None:
        """Remove a secret. Processes that run keep it until they end."""
        jobs = connect().remove_secret(name)
        say(f"{name} removed{_later(jobs, 'fail when they start next')}")

    @secret_app.command("rekey")
    def rekey() -> None:
        """Seal the secrets of all users with a new key, and forget the old one; for operators."""
        done = connect().rekey_secrets()
        lost = f"; {done['lost']} cannot be opened and stay as they are" if done["lost"] else ""
        count = "1 secret is" if done["sealed"] == 1 else f"{done['sealed']} secrets are"
        say(f"{count} sealed with a new key{lost}")


def _value(name: str, from_file: Path | None) -> str:
    if from_file is not None:
        try:
            text = from_file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"--from-file: {from_file} cannot be read as text: {error}") from None
    elif sys.stdin.isatty():
        text = typer.prompt(name, hide_input=True)
    else:
        text = sys.stdin.read()
    return text.removesuffix("\n").removesuffix("\r")


def _later(jobs: Sequence[str], what: str) -> str:
    return f"; processes of {', '.join(jobs)} {what}" if jobs else ""


def table(rows: Sequence[SecretRow]) -> Table:
    """Return secrets, a line each."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False)
    for name in ("NAME", "MADE", "CHANGED", ""):
        found.add_column(name, overflow="fold")
    for row in rows:
        found.add_row(row["name"], _day(row["created_s"]), _day(row["changed_s"]), printable(row["problem"]))
    return found


def _day(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))
