"""The command line and environment of a forked process as `ps` and psutil show them.

The kernel shows the memory in which a program received them. A forked process has its parent's, and writes its own
over them, as setproctitle does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# A parent is given these in addition, so that its children have room for their own.
ROOM_ARGUMENT = " " * 512
ROOM_ENV = {"COADAPT_ROOM": " " * (16 << 10)}
_ARG_START = 45  # of /proc/self/stat, after the name; arg_end, env_start and env_end follow


def show_as(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Show this process with `command` and `env`; the environment it was started with must not be in use any more.

    What does not fit is cut. If nothing can be written, its parent's are shown.
    """
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        arg_start, arg_end, env_start, env_end = (int(field) for field in fields[_ARG_START : _ARG_START + 4])
        _write(arg_start, arg_end, command)
        _write(env_start, env_end, [f"{name}={value}" for name, value in env.items()])


def _write(start: int, end: int, words: Sequence[str]) -> None:
    room = end - start
    text = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)
    if room > 0:
        ctypes.memmove(start, text[: room - 1].ljust(room, b"\0"), room)
