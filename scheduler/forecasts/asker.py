"""Answers questions of what would be, one after another, in a process of their own."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from ...core.errors import WhatIfError
from ...core.schemas import DeadlineView, WhatIfView
from ...forecasts.questions import Answer, Change, Question
from ...forecasts.state import LiveState, PastJob
from .process import ForecastProcess, ProcessLost

CPU_S = 3.0  # of one answer, but for the first two worlds, which may take twice that
NEARS = (20, 8, 3)  # a look ahead that takes too long is tried again with fewer rounds
REST_S = 900.0  # without a question, after which the process ends
View = WhatIfView | DeadlineView
NICE = 2  # somebody waits for it
MOST_WAITING, MOST_KEPT = 8, 32


@dataclass(frozen=True)
class Asked:
    """A question: what is so, what came before, and what would be otherwise.

    job: whose deadline is asked about; "": what would be of all jobs.
    """

    state: LiveState
    past: tuple[PastJob, ...]
    change: Change
    job: str = ""


class Asker:
    """Keeps questions and their answers. An answer is kept until so many others came after it."""

    def __init__(self, process: ForecastProcess | None = None) -> None:
        self._process = process or ForecastProcess(timeout_s=120.0, nice=NICE)
        self._pool = ThreadPoolExecutor(1, "whatif")
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Future[View]] = OrderedDict()
        self._rest: threading.Timer | None = None
        self._told: set[str] = set()  # ids of past jobs that the process knows

    def begin(self, asked: Asked, shown: Callable[[Answer], View]) -> str:
        """Begin to answer, and return the number of the question. Raises: WhatIfError where too many wait."""
        with self._lock:
            waiting = sum(not one.done() for one in self._known.values())
            if waiting >= MOST_WAITING:
                raise WhatIfError(f"whatif: {waiting} questions wait for an answer already; ask again in a minute")
            number = uuid.uuid4().hex
            self._known[number] = self._pool.submit(lambda: shown(self._answer(asked)))
            if self._rest is not None:
                self._rest.cancel()
            self._rest = threading.Timer(REST_S, self._process.rest)
            self._rest.daemon = True
            self._rest.start()
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return number

    def answer(self, number: str) -> View | None:
        """Return an answer; None: it is worked out still.

        Raises: KeyError for an unknown question; WhatIfError where there is no answer.
        """
        with self._lock:
            found = self._known.get(number)
        if found is None:
            raise KeyError(f"no question {number} is asked")
        return found.result() if found.done() else None

    def stop(self) -> None:
        """Answer nothing more."""
        if self._rest is not None:
            self._rest.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._process.stop()

    def _answer(self, asked: Asked) -> Answer:
        for near in NEARS:
            try:
                if not self._process.runs:
                    self._told.clear()
                new = tuple(one for one in asked.past if one.id not in self._told)
                kind: Literal["whatif", "deadline"] = "deadline" if asked.job else "whatif"
                question = Question(kind, asked.state, new, CPU_S, near, asked.change, asked.job)
                answer = self._process.ask(question)
                self._told |= {one.id for one in new}
            except ProcessLost as error:
                raise WhatIfError(f"whatif: {error}; ask again") from None
            if answer.whatif is not None or answer.gives is not None:
                return answer
            if not answer.too_long:
                raise WhatIfError(f"whatif: {answer.error}")
        raise WhatIfError(f"whatif: {answer.error}; the cluster is too large for it")
