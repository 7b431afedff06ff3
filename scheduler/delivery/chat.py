"""Chat and mail: one URL for each service, by the library `apprise` (`pip install coadapt[notify]`).

The library asks servers by itself, and some of its services read files that a URL names. A thread that uses it
connects to allowed addresses only, and opens no files but those of libraries. Python tells of each beforehand, and
what is not allowed is never done.
"""

from __future__ import annotations

import mimetypes
import os
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


LIBRARIES = tuple(f"{os.path.realpath(path)}{os.sep}" for path in (sys.prefix, sys.base_prefix))
MODULES = (".py", ".pyc", ".so")
NO_FILE = "its URL names a file; a URL of chat or mail that reads no file of the scheduler's machine is accepted"


class NotAllowed(ConnectionError):
    """An address that nothing may be sent to, or a file that nobody may have read."""


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

    with only_to(()):  # it only looks at the URL
        return apprise.Apprise.instantiate(url, suppress_exceptions=True)


_local = threading.local()
_watching = threading.Lock()
_watched = False


@contextmanager
def only_to(allowed: Sequence[str]) -> Iterator[list[str]]:
    """Let this thread connect to allowed addresses only, and open no files; yield why others were not."""
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
    if event not in ("socket.connect", "socket.sendto", "open") or getattr(_local, "allowed", None) is None:
        return
    if event == "open":
        why = "" if _is_of_library(args[0]) else NO_FILE
    else:
        address = args[1]
        host = str(address[0]) if isinstance(address, tuple) else str(address)
        why = address_problem(host, host, _local.allowed)
    if why:
        _local.refused.append(why)
        raise NotAllowed(why)


def _is_of_library(path: object) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):  # it is open already
        return True
    told = os.path.realpath(os.fsdecode(path))
    return told.endswith(MODULES) or told.startswith(LIBRARIES) or os.fsdecode(path) in mimetypes.knownfiles
