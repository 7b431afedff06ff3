"""Sends letters, in a process of its own, so that no round waits for the internet and no letter for a round.

The service that it sends for may die. What is under way goes on then, and how it ended is told to the next one.
So a letter that was acknowledged meanwhile is not sent again. Nothing is kept on disk.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import aiohttp

from ...core.notify import shown_place
from ...core.receivers import address_problem, url_problem
from ..runtime.clock import SystemClock
from .chat import send_chat
from .letters import Kind, Letter, chat_of
from .signing import headers

AT_ONCE = 8  # letters to one webhook
MOST_ANSWER = 4096  # bytes of an answer that are read
MOST_AFTER_S = 3600.0  # for so long a receiver may ask to be left alone
CHAT_S = 60.0  # a library that has not come back by then is not waited for
LOOKUPS = 64  # names that are looked up at once
AGENT = "Coadapt"


@dataclass(frozen=True)
class Outcome:
    """How a try ended.

    problem: why it was in vain; "": it was acknowledged.
    after_s: for so long the receiver asks to be left alone.
    number: of this try, which no other has; 0: it was none of the sender's.
    """

    id: str
    problem: str = ""
    after_s: float = 0.0
    number: int = 0


@dataclass(frozen=True)
class Told:
    """What a sender knows: what has ended and was not confirmed yet, and the ids of what is under way."""

    outcomes: tuple[Outcome, ...] = ()
    flying: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Asking:
    host: str
    allowed: tuple[str, ...]
    refused: list[str]


_asking: ContextVar[_Asking] = ContextVar("asking")


class Sender:
    """Sends what it is given, each letter once, and tells how that ended until it is confirmed."""

    def __init__(self) -> None:
        self._lock, self._clock = threading.Lock(), SystemClock()
        self._epoch = 0
        self._flying: set[str] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._numbers = count(secrets.randbits(62))
        self._ended = threading.Event()
        self._lanes: defaultdict[int, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(LOOKUPS, "lookups"))
        self._session: aiohttp.ClientSession | None = None
        threading.Thread(target=self._run, name="sender", daemon=True).start()

    def exchange(
        self, epoch: int, confirmed: Sequence[int], letters: Sequence[Letter], wait_s: float = 0.0
    ) -> Told:
        """Take letters, forget what is confirmed, and tell what has ended and what is under way.

        A letter that is under way, or whose end is not confirmed, is not sent again.

        Args:
            confirmed: numbers of outcomes.
            epoch: of the service that asks. One that a later service has replaced is not served any more.
            wait_s: for so long at most until something has ended, where something is under way.
        """
        with self._lock:
            if epoch < self._epoch:
                return Told()
            self._epoch = epoch
            known = set(confirmed)
            self._outcomes = {name: one for name, one in self._outcomes.items() if one.number not in known}
            for letter in letters:
                if letter.id not in self._flying and letter.id not in self._outcomes:
                    self._flying.add(letter.id)
                    asyncio.run_coroutine_threadsafe(self._deliver(letter), self._loop)
            if self._outcomes or not self._flying:
                wait_s = 0.0
            self._ended.clear()
        if wait_s:
            self._ended.wait(wait_s)
        with self._lock:
            return Told(tuple(self._outcomes.values()), frozenset(self._flying))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _deliver(self, letter: Letter) -> None:
        try:
            async with self._lanes[letter.webhook]:
                outcome = await (self._chat(letter) if letter.kind is Kind.CHAT else self._post(letter))
        except Exception as error:  # so that it is tried again
            outcome = Outcome(letter.id, f"{shown_place(letter.url)}: {type(error).__name__}")
        with self._lock:
            self._flying.discard(letter.id)
            self._outcomes[letter.id] = replace(outcome, number=next(self._numbers))
            self._ended.set()

    async def _post(self, letter: Letter) -> Outcome:
        if why := url_problem(letter.url, letter.allowed):
            return Outcome(letter.id, why)
        place, refused = shown_place(letter.url), list[str]()
        host = aiohttp.client_reqrep.URL(letter.url).host or ""
        _asking.set(_Asking(host, letter.allowed, refused))
        told = {"Content-Type": "application/json", "User-Agent": AGENT}
        if letter.kind is Kind.PROGRAM:
            told |= headers(letter.secret, letter.id, int(self._clock.wall_s()), letter.body)
        try:
            async with asyncio.timeout(letter.answer_s):
                async with self._client().post(
                    letter.url, data=letter.body.encode(), headers=told, allow_redirects=False
                ) as answer:
                    await answer.content.read(MOST_ANSWER)
                    return _outcome(letter.id, place, answer.status, answer.headers.get("Retry-After", ""))
        except TimeoutError:
            return Outcome(letter.id, f"{place} has not answered in {letter.answer_s:g} s")
        except aiohttp.ClientConnectorDNSError:
            return Outcome(letter.id, f"{place}: its name leads to no address")
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            return Outcome(letter.id, f"{place}: its certificate is not accepted: {_first(error)}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Outcome(letter.id, refused[0] if refused else f"{place} cannot be reached: {_first(error)}")

    async def _chat(self, letter: Letter) -> Outcome:
        """Send by a thread of its own, so that one service that is slow keeps no other waiting."""
        done: asyncio.Future[str] = self._loop.create_future()

        def work() -> None:
            try:
                problem = send_chat(letter.url, *chat_of(letter.body), letter.allowed)
            except Exception as error:  # of a library that is not ours
                problem = f"{shown_place(letter.url)}: {type(error).__name__}"
            self._loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(problem))

        threading.Thread(target=work, name="chat", daemon=True).start()
        try:
            return Outcome(letter.id, await asyncio.wait_for(done, CHAT_S))
        except TimeoutError:
            return Outcome(letter.id, f"{shown_place(letter.url)} has not answered in {CHAT_S:g} s")

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, use_dns_cache=False, socket_factory=_allowed_socket)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


def _allowed_socket(address: Any) -> socket.socket:
    """Return a socket for the very address that is about to be connected to, if that is allowed."""
    family, kind, protocol, _, place = address
    asking = _asking.get()
    if why := address_problem(str(place[0]), asking.host, asking.allowed):
        asking.refused.append(why)
        raise OSError(why)
    return socket.socket(family, kind, protocol)


def _outcome(sent_id: str, place: str, status: int, after: str) -> Outcome:
    if 200 <= status < 300:
        return Outcome(sent_id)
    if 300 <= status < 400:
        return Outcome(sent_id, f"{place} answers with a redirect ({status}), which is not followed")
    wait_s = min(float(after), MOST_AFTER_S) if status in (429, 503) and after.isdecimal() else 0.0
    return Outcome(sent_id, f"{place} answers with status {status}", wait_s)


def _first(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
