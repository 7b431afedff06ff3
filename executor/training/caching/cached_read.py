"""A script's read function whose answers are kept for the other passes over the data."""

from __future__ import annotations

import functools
import pickle
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Generic, ParamSpec, TypeVar

from ..data import input_pace
from .node_cache import NodeCache
from .shared_cache import DIGEST_BYTES

P = ParamSpec("P")
R = TypeVar("R")

CHECKED = 2  # answers of each read that are compared with a second one, when they are kept and when they are found
CHECKED_IN_ALL = 16  # over all processes of a job on a node

_made: Counter[str] = Counter()


class CachedRead(Generic[P, R]):
    """Answers a call from the cache if it has the answer, and else by the script's function.

    Args:
        name: tells the answers of several reads of a job apart; by default the function's name, and how many were
            wrapped under this name before.

    Raises: TypeError for what cannot be called.
    """

    def __init__(self, read: Callable[P, R], cache: NodeCache, name: str = "") -> None:
        check(read)
        self._read, self._cache, self._name = read, cache, name or _numbered(read)
        self._key = blake2b(self._name.encode(), digest_size=32).digest()  # so that names do not meet
        self._kept = self._found = 0
        functools.update_wrapper(self, read, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        digest = self._digest(args, kwargs)
        shared = self._cache.shared
        found = shared.get(digest)
        if found is not None:
            if self._found < CHECKED and shared.check(CHECKED_IN_ALL):
                self._found += 1
                self._compare(bytes(found), self._read(*args, **kwargs), args)
            return decoded(found)
        answer = self._read(*args, **kwargs)
        if (pace := input_pace.current) is not None:
            pace.read(shared)
        if shared.budget > 0:
            sample = self._encoded(answer)
            if self._kept < CHECKED and shared.check(CHECKED_IN_ALL):
                self._kept += 1
                self._compare(sample, self._read(*args, **kwargs), args)
            self._cache.put(digest, sample, 0 if pace is None else pace.charge)
        return answer

    def _digest(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        if not kwargs and len(args) == 1 and type(args[0]) in (int, str):
            key = f"{type(args[0]).__name__} {args[0]}".encode()
        else:
            try:
                key = pickle.dumps((args, sorted(kwargs.items())))
            except Exception as error:
                raise TypeError(
                    f"cached: {self._name} is called with what cannot be pickled ({error}); "
                    "numbers, texts and paths are good keys"
                ) from None
        return blake2b(key, digest_size=DIGEST_BYTES, key=self._key).digest()

    def _encoded(self, answer: Any) -> bytes:
        try:
            return encoded(answer)
        except Exception as error:
            raise TypeError(
                f"cached: {self._name} returns a {type(answer).__name__} that cannot be pickled ({error}); "
                "bytes, arrays and tensors can be kept"
            ) from None

    def _compare(self, kept: bytes, again: Any, args: tuple[Any, ...]) -> None:
        """Raise ValueError where a second answer to the same call differs. What a pickle looks like may."""
        other = self._encoded(again)
        if kept != other and encoded(decoded(kept)) != encoded(decoded(other)):
            key = ", ".join(map(repr, args))[:60]
            raise ValueError(
                f"cached: {self._name}({key}) answers differently the second time; wrap a read that answers the "
                "same for the same key, and change samples at random after it"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return CachedRead, (self._read, self._cache, self._name)


def check(read: object) -> None:
    """Raise TypeError, one sentence, for what cannot be called."""
    if not callable(read):
        raise TypeError(
            f"cached: a {type(read).__name__} cannot be called; a function that returns the sample of a key is "
            "accepted"
        )


def encoded(answer: Any) -> bytes:
    return b"b" + answer if type(answer) is bytes else b"p" + pickle.dumps(answer, protocol=5)


def decoded(sample: bytes | memoryview) -> Any:
    inside = memoryview(sample)[1:]
    return bytes(inside) if sample[0] == b"b"[0] else pickle.loads(inside)


def _numbered(read: Any) -> str:
    """Return a name that is the same in every process of a script, as they all run it from its beginning."""
    called = getattr(read, "__qualname__", type(read).__qualname__)
    _made[called] += 1
    return called if _made[called] == 1 else f"{called}#{_made[called]}"
