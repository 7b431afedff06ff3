"""What a training process and its worker say, as JSON on their socket pair: nothing that comes from it is run.

A message is its length in four bytes and `{"job": …, "kind": "Join", "fields": {…}}`. Fields are read by the types
of the dataclass that `kind` names. Fields that are not known are passed over. A message is bounded in bytes, depth
and values before anything is made of it. Numbers that are not finite are texts, as in `core.json_numbers`.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from ...core.json_numbers import NOT_FINITE, dumps
from .messages import Command, Event

MESSAGE_BYTES = 4 << 20
MOST_DEPTH = 16
MOST_VALUES = 100_000
LENGTH_BYTES = 4
PIECE_BYTES = 1 << 16
SHOWN = 40  # characters of a value in a sentence
EVENTS: tuple[type, ...] = get_args(Event)
COMMANDS: tuple[type, ...] = get_args(Command)

_LARGEST = 2**63 - 1
_STRING = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)', re.DOTALL)
_Read = Callable[[Any, str], Any]


class MessageError(ValueError):
    """A message that is not taken; one sentence says why."""


class Wire:
    """One end of a socket pair between a training process and its worker. Any thread may send; one receives.

    kinds: of the messages that are received, `EVENTS` or `COMMANDS`.
    job: whose messages these are; those of another job are refused.
    """

    def __init__(self, fd: int, kinds: Sequence[type], job: str = "") -> None:
        self._socket = socket.socket(fileno=fd)
        self._kinds = tuple(kinds)
        self._job = job
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any) -> None:
        """Send a message. Raises: OSError if the other side is gone; MessageError where it is too large."""
        data = encoded(message, self._job)
        with self._sending:
            self._socket.sendall(len(data).to_bytes(LENGTH_BYTES, "big") + data)

    def receive(self) -> Any:
        """Return the next message. Raises: EOFError at the end; MessageError, after which nothing more is read."""
        head = self._exactly(LENGTH_BYTES, "a length")
        size = int.from_bytes(head, "big")
        if not 0 < size <= MESSAGE_BYTES:
            raise MessageError(f"a message of {size} bytes was announced; 1 to {MESSAGE_BYTES} are taken")
        return decoded(self._exactly(size, "a message"), self._kinds, self._job)

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, size: int, what: str) -> bytes:
        """Return so many bytes; only what has come is held in memory."""
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), PIECE_BYTES))
            if not part:
                half = f"; it ended within {what}, of which {len(parts)} of {size} bytes came" if parts else ""
                raise EOFError(f"the other side is gone{half}")
            parts += part
        return bytes(parts)


def encoded(message: Any, job: str = "") -> bytes:
    """Return a message as JSON. Raises: MessageError where it is too large."""
    told = {"job": job, "kind": type(message).__name__, "fields": _plain(message)}
    data = dumps(told).encode()
    if len(data) > MESSAGE_BYTES:
        raise MessageError(f"{type(message).__name__}: has {len(data)} bytes; at most {MESSAGE_BYTES} are sent")
    return data


def decoded(data: bytes, kinds: Sequence[type], job: str = "") -> Any:
    """Return the message in some JSON, which is of one of these kinds. Raises: MessageError."""
    _check_bounds(data)
    try:
        told = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise MessageError("a message is no JSON") from None
    if not isinstance(told, dict):
        raise MessageError(f"a message is {_shown(told)}; an object with job, kind and fields is expected")
    if told.get("job", "") != job:
        raise MessageError(f"job: a message is of job {_shown(told.get('job'))}, and this is job {job!r}")
    kind = next((one for one in kinds if one.__name__ == told.get("kind")), None)
    if kind is None:
        known = ", ".join(one.__name__ for one in kinds)
        raise MessageError(f"kind: {_shown(told.get('kind'))} is none of {known}")
    return _read_dataclass(kind, told.get("fields"), kind.__name__)


# --- to JSON ----------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):  # a text of the script may hold halves of characters
        return value.encode(errors="replace").decode()
    if hasattr(value, "item"):
        value = value.item()
    return _as_float(value) if isinstance(value, int) and abs(value) > _LARGEST else value


# --- from JSON --------------------------------------------------------------------------------------------


def _check_bounds(data: bytes) -> None:
    """Refuse what is too deep or has too many values, by its punctuation outside texts."""
    outside = _STRING.sub(b"", data)
    values = sum(outside.count(mark) for mark in (b",", b"[", b"{", b":"))
    if values > MOST_VALUES:
        raise MessageError(f"a message has more than {MOST_VALUES} values")
    depth = 0
    for mark in re.findall(rb"[\[\]{}]", outside):
        depth += 1 if mark in b"[{" else -1
        if depth > MOST_DEPTH:
            raise MessageError(f"a message is nested more than {MOST_DEPTH} levels deep")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _read_dataclass(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise MessageError(f"{where}: {_shown(value)} is no object of fields")
    found = {}
    for name, (read, required) in _readers(kind).items():
        if name in value:
            found[name] = read(value[name], f"{where}.{name}")
        elif required:
            raise MessageError(f"{where}.{name}: missing")
    return kind(**found)


@cache
def _readers(kind: type) -> dict[str, tuple[_Read, bool]]:
    """Return how each field is read, and whether it has to be there."""
    types = get_type_hints(kind)
    return {
        field.name: (
            _reader(types[field.name]),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    }


@cache
def _reader(wanted: Any) -> _Read:
    """Return what reads a value of a type. Raises: TypeError for a type that messages may not have."""
    origin, inside = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return _optional(_reader(next(one for one in inside if one is not NoneType)))
    if origin is tuple:
        return _sequence(_reader(inside[0]), tuple)
    if origin is Sequence:
        return _sequence(_reader(inside[0]), list)
    if origin is Mapping:
        return _mapping(_reader(inside[1]))
    if isinstance(wanted, type) and is_dataclass(wanted):
        return lambda value, where: _read_dataclass(wanted, value, where)
    if wanted in _PLAIN:
        return _PLAIN[wanted]
    raise TypeError(f"{wanted} is no type of a message's field")


def _optional(read: _Read) -> _Read:
    return lambda value, where: None if value is None else read(value, where)


def _sequence(read: _Read, kind: type) -> _Read:
    def read_all(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise MessageError(f"{where}: {_shown(value)} is no list")
        return kind([read(item, where) for item in value])

    return read_all


def _mapping(read: _Read) -> _Read:
    def read_all(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise MessageError(f"{where}: {_shown(value)} is no object")
        return {key: read(item, where) for key, item in value.items()}

    return read_all


def _read_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise MessageError(f"{where}: {_shown(value)} is no text")
    return value.encode(errors="replace").decode()


def _read_bool(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise MessageError(f"{where}: {_shown(value)} is neither true nor false")
    return value


def _read_int(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        raise MessageError(f"{where}: {_shown(value)} is no whole number of 64 bits")
    return value


def _read_float(value: Any, where: str) -> float:
    """Return a number. A whole one stays whole, as scripts report counts."""
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MessageError(f"{where}: {_shown(value)} is no number")
    return _as_float(value) if isinstance(value, int) and abs(value) > _LARGEST else value


_PLAIN: dict[Any, _Read] = {str: _read_text, bool: _read_bool, int: _read_int, float: _read_float}


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _shown(value: Any) -> str:
    """Return a value from a stranger, cut short, as JSON."""
    if isinstance(value, str):
        value = value[:SHOWN]
    try:
        text = json.dumps(value)
    except ValueError:  # a number of thousands of digits
        text = "a number"
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
