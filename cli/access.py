"""`coadapt login`, `coadapt user` and `coadapt token`: who may use a scheduler."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from ..core.identity import Role
from .exit_codes import Exit
from .plain import printable, say

user_app = typer.Typer(help="Show users, and change what they may do.", rich_markup_mode=None)
token_app = typer.Typer(help="Show tokens, make and revoke them.", rich_markup_mode=None)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DAY_S = 86_400.0


def login(
    url: Annotated[str, typer.Argument(help="The URL of a scheduler, such as https://head.example.org:8420.")],
    token: Annotated[
        str | None, typer.Option(help="The token; else it is asked for, or read from the input.")
    ] = None,
) -> None:
    """Use a scheduler elsewhere: its URL and token are stored for all further commands."""
    from ..client.client import Client, url_of
    from ..client.http_api import HttpApi
    from ..client.login import Login, login_path

    if token is None:
        token = typer.prompt("Token", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    found = Login(url_of(url), token.strip())
    me = Client(HttpApi(found.url, found.token, patience_s=0.0)).me()
    found.save()
    say(f"{me['user']} ({me['role']}) uses {found.url}; the token is in {login_path()}")


def _client() -> Any:
    from ..client.client import connect

    return connect()


def _show(rows: list[dict[str, Any]], columns: dict[str, str], as_json: bool) -> None:
    from .show import console

    if as_json:
        from ..core.json_numbers import dumps

        say(dumps(rows, indent=2))
        return
    from rich.table import Table

    table = Table(box=None)
    for title in columns.values():
        table.add_column(title)
    for row in rows:
        table.add_row(*(printable(_shown(name, row[name])) for name in columns))
    console().print(table)


def _shown(name: str, value: object) -> str:
    if value is None:
        return "-"
    if name.endswith("_s") and isinstance(value, int | float):
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


@user_app.command("list")
def list_users(as_json: Json = False) -> None:
    """Show all users."""
    columns = {"name": "user", "role": "role", "disabled": "disabled", "created_s": "since"}
    _show(_client().users(), columns, as_json)


@user_app.command("add")
def add_user(
    name: str,
    role: Annotated[Role, typer.Option(help="What the user may do.")] = Role.USER,
    days: Annotated[float | None, typer.Option(min=0.01, help="After so many days the token expires.")] = None,
) -> None:
    """Make a user, or change its role, and print a token for it, which is shown this once."""
    client = _client()
    client.put_user(name, role)
    say(client.new_token(name, days=days)["token"])


@user_app.command("disable")
def disable_user(name: str) -> Exit:
    """Accept no token of a user any more."""
    return _set_disabled(name, disabled=True)


@user_app.command("enable")
def enable_user(name: str) -> Exit:
    """Accept a user's tokens again."""
    return _set_disabled(name, disabled=False)


def _set_disabled(name: str, *, disabled: bool) -> Exit:
    client = _client()
    known = next((row for row in client.users() if row["name"] == name), None)
    if known is None:
        say(f"coadapt: there is no user {name}; `coadapt user list` shows all", error=True)
        return Exit.NOT_FOUND
    done = client.put_user(name, Role(known["role"]), disabled=disabled)
    say(f"{name} {'is' if done else 'was'} {'disabled' if disabled else 'enabled'}")
    return Exit.OK


@token_app.command("list")
def list_tokens(as_json: Json = False) -> None:
    """Show your tokens; an operator sees those of all. What makes them good is never shown."""
    columns = {
        "id": "token",
        "user": "user",
        "label": "label",
        "created_s": "made",
        "expires_s": "expires",
        "revoked_s": "revoked",
        "used_s": "last used",
    }
    _show(_client().tokens(), columns, as_json)


@token_app.command("new")
def new_token(
    user: Annotated[str | None, typer.Option(help="Whose; only an operator makes tokens for others.")] = None,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    days: Annotated[float | None, typer.Option(min=0.01, help="After so many days it expires.")] = None,
) -> None:
    """Make a token and print it, this once."""
    say(_client().new_token(user, label, days)["token"])


@token_app.command("revoke")
def revoke_token(
    token_id: Annotated[str, typer.Argument(metavar="TOKEN", help="As `coadapt token list`.")],
) -> None:
    """Accept a token no more."""
    done = _client().revoke_token(token_id)
    say(f"{token_id} {'is' if done else 'was'} revoked")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(login)
    app.add_typer(user_app, name="user")
    app.add_typer(token_app, name="token")
