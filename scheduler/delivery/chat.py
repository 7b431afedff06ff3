"""Chat and mail: one URL for each service, by the library `apprise` (`pip install coadapt[notify]`).

The library asks servers by itself. A thread that uses it connects to allowed addresses only. Python tells of every
connection before it is made, and one that is not allowed is never made.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from ...core.notify import shown_place
from ...core.receivers import address_problem

MISSING = "needs the package apprise on the scheduler's machine: pip install coadapt[notify]"
LOCAL = ("dbus", "qt", "kde", "glib", "gnome", "macosx", "windows", "syslog", "growl")  # that tell this machine


class NotAllowed(ConnectionError):
    """An address that nothing may be sent to."""


def chat_problem(url: str) -> str:
    """Return why a URL of chat or mail is not accepted, in one sentence without its secret parts; "": it is."""
    if find_spec("apprise") is None:
        return f"{shown_place(url)} {MISSING}"
    if url.partition("://")[0].lower() in LOCAL or _service(url) is None:
        return (
            f"{shown_place(url)} is no URL that apprise knows; accepted are https:// and, for example, "
            "mailtos://, slack://, discord://, msteams://, tgram:// and matrixs://"
        )
    return ""


def send_chat(url: str, title: str, text: str, bad: bool, allowed: Sequence[str]) -> str:
    """Send a message; return why it was not, or "". It takes as long as the library's own limits."""
    if why := chat_problem(url):
        return why
    import apprise

    service = _service(url)
    kind = apprise.NotifyType.FAILURE if bad else apprise.NotifyType.INFO
    with only_to(allowed) as refused:
        try:
            done = service.notify(body=text or title, title=title, notify_type=kind)
        except Exception as error:  # of any of a hundred services
            done, refused = False, refused or [f"{type(error).__name__}"]
    return "" if done else refused[0] if refused else f"{shown_place(url)} did not take the message"


def _service(url: str) -> Any:
    import apprise

    return apprise.Apprise.instantiate(url, suppress_exceptions=True)


_local = threading.local()
_watching = threading.Lock()
_watched = False


@contextmanager
def only_to(allowed: Sequence[str]) -> Iterator[list[str]]:
    """Let this thread connect to allowed addresses only; yield why others were not."""
    global _watched
    with _watching:
        if not _watched:
            sys.addaudithook(_look)
            _watched = True
    refused: list[str] = []
    _local.allowed, _local.refused = tuple(allowed), refused
    try:
        yield refused
    finally:
        _local.allowed = None


def _look(event: str, args: tuple[Any, ...]) -> None:
    if event not in ("socket.connect", "socket.sendto") or getattr(_local, "allowed", None) is None:
        return
    address = args[1]
    host = str(address[0]) if isinstance(address, tuple) else str(address)
    if why := address_problem(host, host, _local.allowed):
        _local.refused.append(why)
        raise NotAllowed(why)
