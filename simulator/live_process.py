"""The process that forecasts: a question a line on its input, an answer a line on its output.

`python -m coadapt.simulator.live_process [NICE]`. It is nice to others, and ends with whoever started it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import BinaryIO

from ..core.wording import in_words
from ..forecasts.questions import ANSWER, QUESTION, Answer, Question
from ..forecasts.state import PastJob
from ..policies.warm_up import warm_up
from .giving import giving
from .live import TooLong, forecast
from .whatif import changed, whatif

NICE = 10  # unless the first argument says otherwise
LOOK_S = 1.0  # between two looks at whether the parent is there
MOST_PAST = 3000


class Answers:
    """Answers questions one after another. It keeps the jobs of the past."""

    def __init__(self) -> None:
        self._past: dict[str, PastJob] = {}
        self._warm: set[str] = set()  # policies whose kernels are loaded

    def line(self, text: bytes) -> bytes:
        """Return the answer to a line, as a line."""
        try:
            answer = self.answer(QUESTION.validate_json(text))
        except ValueError as error:
            answer = Answer(error=f"the question is not understood: {in_words(error)}")
        return ANSWER.dump_json(answer) + b"\n"

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question; what goes wrong is told in it."""
        self._past |= {one.id: one for one in question.past}
        past = sorted(self._past.values(), key=lambda one: one.submitted_s)[-MOST_PAST:]
        self._past = {one.id: one for one in past}
        policy = question.change.policy or question.state.policy
        if policy not in self._warm:  # what compiling takes is no part of a look ahead
            self._warm.add(policy)
            with suppress(ValueError):  # the answer tells of a policy that is none
                warm_up(policy, question.change.options if question.change.policy else question.state.options)
        began_s = time.process_time()
        try:
            if question.kind == "forecast":
                made = forecast(question.state, past, cpu_s=question.cpu_s, near=question.near)
                return Answer(forecast=made, cpu_s=time.process_time() - began_s)
            if question.kind == "deadline":
                gives = giving(
                    changed(question.state, question.change), past, question.job, cpu_s=question.cpu_s,
                    near=question.near,
                )  # fmt: skip
                return Answer(gives=gives, cpu_s=time.process_time() - began_s)
            told = whatif(question.state, past, question.change, cpu_s=question.cpu_s, near=question.near)
            return Answer(whatif=told, cpu_s=time.process_time() - began_s)
        except TooLong as error:
            return Answer(error=str(error), too_long=True, cpu_s=time.process_time() - began_s)
        except Exception as error:  # of a policy, which may be anybody's
            return Answer(error=in_words(error), cpu_s=time.process_time() - began_s)


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there are no more questions."""
    found = Answers()
    for line in questions:
        answers.write(found.line(line))
        answers.flush()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)  # nobody tells of the death of a parent
    os._exit(0)


def main() -> None:
    """Serve the process that started this one."""
    os.nice(int(sys.argv[1]) if len(sys.argv) > 1 else NICE)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library prints is no answer
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
