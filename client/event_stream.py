"""Reads server-sent events, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServerEvent:
    """One event of a stream. `id`: from where the stream goes on after it; "": it tells none."""

    kind: str
    data: Any
    id: str = ""


def parsed(chunks: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield the events of a stream. One that is cut off is left out."""
    kind, data, last_id, rest = "message", list[str](), "", b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.decode(errors="replace").rstrip("\r").partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                last_id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif not name and not value and data:
                yield ServerEvent(kind, json.loads("\n".join(data)), last_id)
                kind, data = "message", []
