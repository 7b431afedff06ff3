"""Rounds are when their clock says, and time never passes beyond them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from coadapt.simulator.compat.gavel import AfterLastStep
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.round_clock import AtEvents, AtIntervals, EarlyRounds, RoundClock
from coadapt.simulator.traces.tables import Floats


@dataclass
class Run:
    """A run of jobs that end at `ends_s`, with nodes that change at `changes_s`."""

    now_s: float = 0.0
    ends_s: list[float] = field(default_factory=list)
    arrival_s: float = np.inf
    again_s: float = np.inf
    changes_s: list[float] = field(default_factory=list)

    @property
    def active(self) -> int:
        return sum(end > self.now_s for end in self.ends_s)

    def next_arrival_s(self) -> float:
        return self.arrival_s

    def asked_again_s(self) -> float:
        return self.again_s

    def boundaries_s(self) -> Floats:
        return np.array([end for end in self.ends_s if end > self.now_s])

    def expected_end_s(self) -> float:
        return min((end for end in self.ends_s if end > self.now_s), default=np.inf)

    def pass_until(self, until_s: float, *, or_change: bool = False) -> bool:
        on_the_way = [at for at in self.changes_s if self.now_s < at <= until_s]
        self.now_s = on_the_way[0] if on_the_way and or_change else until_s
        return bool(on_the_way)


INTERVALS, EARLY = AtIntervals(60.0, 5.0), EarlyRounds(60.0, 0.5)


@pytest.mark.parametrize(
    ("clock", "run", "round_s"),
    [
        (INTERVALS, Run(65.0, [1000.0]), 125.0),
        (INTERVALS, Run(65.0, [1000.0], again_s=80.0), 80.0),
        (INTERVALS, Run(65.0, arrival_s=310.0), 365.0),  # nobody is there: the multiple after the arrival
        (AtEvents(), Run(0.0, [50.0], arrival_s=40.0), 40.0),
        (AtEvents(), Run(0.0, [50.0], arrival_s=400.0), 50.0),
        (AtEvents(), Run(0.0, [50.0], changes_s=[30.0]), 30.0),
        (AtEvents(), Run(0.0, [50.0], again_s=20.0), 20.0),
        (EARLY, Run(0.0, [1000.0]), 60.0),
        (EARLY, Run(0.0, [1000.0], arrival_s=10.0), 10.5),
        (EARLY, Run(0.0, [20.0, 1000.0]), 20.5),
        (EARLY, Run(0.0, [59.8, 1000.0]), 60.0),  # what is due sooner is not put off
        (EARLY, Run(0.0, [1000.0], again_s=15.0), 15.0),
        (AfterLastStep(), Run(0.0, [100.0, 350.0]), 350.000001),
        (AfterLastStep(), Run(400.0, arrival_s=500.0), 500.0),
    ],
)
def test_the_next_round_is_at(clock: RoundClock, run: Run, round_s: float) -> None:
    clock.to_round(run)
    assert run.now_s == pytest.approx(round_s, abs=1e-9)


def test_each_timing_has_its_clock() -> None:
    assert Timing(30.0, first_s=7.0).clock() == AtIntervals(30.0, 7.0)
    assert Timing(30.0, events=True).clock() == AtEvents()
    assert Timing(30.0, early_s=2.0).clock() == EarlyRounds(30.0, 2.0)
