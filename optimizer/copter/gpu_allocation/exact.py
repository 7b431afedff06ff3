"""The integer program by HiGHS: all of it, or only what reduced costs leave open."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...allocation import ChoiceProgram, ChoiceSolution
from ...highs import Highs, Method
from ..baselines import milp
from .program import Reading, dense, flat, picked, plain


@dataclass(frozen=True)
class Ilp:
    """Solves the whole integer program by HiGHS's branch and bound."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        reading = Reading.of(program, order)
        exact = Highs(Method.EXACT, time_limit_s=time_limit_s, gap=max(gap, 1e-9))
        found = exact.solve(reading.linear_program(integer=True))
        choice = picked(reading.entries, found.x, len(order))
        return reading.plan(choice, -found.bound, np.zeros(len(reading.capacity)), gap, found.seconds)


@dataclass(frozen=True)
class Reduced:
    """Solves by HiGHS what the LP's reduced costs leave open of the integer program (`baselines/milp.py`)."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        start_s = time.perf_counter()
        problem = dense(*flat(program, order), program.capacity, program.required(order))
        found = milp.solve(problem, time_limit_s, gap)
        choice = plain(found.choice, program)
        return replace(found, choice=choice, seconds=time.perf_counter() - start_s)
