"""`coadapt open`: the page of the cluster, signed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from .plain import say

if TYPE_CHECKING:
    from ..client.client import Client


def link(client: Client) -> str:
    """Return an address that opens the page signed in, once and within minutes."""
    return f"{client.url}/sign-in?key={quote(client.page_key()['key'])}"


def register(app: typer.Typer, connect: Callable[[], Client]) -> None:
    """Add the verb to the command."""

    @app.command("open")
    def open_page(
        shown: Annotated[bool, typer.Option("--print", help="Print the address, and open no browser.")] = False,
    ) -> None:
        """Open the page of the cluster in a browser, signed in."""
        import webbrowser

        address = link(connect())
        if shown or not webbrowser.open(address):
            say(address)
