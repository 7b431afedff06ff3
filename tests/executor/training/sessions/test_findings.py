"""What was found out of a script travels to those that come later, and nobody unlearns anything."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest
from coadapt.executor.training.checks.gradient_check import COMPARED
from coadapt.executor.training.losses.loss_weights import LossWeights
from coadapt.executor.training.sessions.findings import Findings
from coadapt.executor.training.sessions.loop_state import LoopState
from coadapt.executor.training.sessions.step_in_hand import StepInHand
from coadapt.executor.training.state.training_state import Position


class One:
    """A process that knows some of it."""

    def __init__(self, compared: int = 0, one_pass: bool = False, whole: bool = False) -> None:
        self.weights = LossWeights(lambda sentence: None)
        if whole:
            self.weights.only_whole("found")
        self.watch = SimpleNamespace(check=SimpleNamespace(done=compared))
        self.loop = LoopState(Position(), StepInHand(), one_pass=one_pass)
        self.findings = Findings(self.weights, self.watch, self.loop)


@pytest.mark.parametrize(
    ("compared", "one_pass", "whole"), [*product((0, 1, len(COMPARED)), (False, True), (False, True))]
)
def test_a_newcomer_knows_what_the_others_have_found_out(compared: int, one_pass: bool, whole: bool) -> None:
    found, newcomer = One(compared, one_pass, whole), One()
    newcomer.findings.learn(found.findings.learned())
    assert newcomer.findings.learned() == found.findings.learned()
    assert newcomer.watch.check.done == compared
    assert newcomer.loop.one_pass is one_pass
    assert newcomer.weights.whole is whole


def test_what_somebody_knew_stays_known() -> None:
    found = One(compared=1, one_pass=True, whole=True)
    before = found.findings.learned()
    found.findings.learn(One().findings.learned())
    assert found.findings.learned() == before


def test_it_is_as_many_words_whatever_is_known() -> None:
    assert len(One().findings.learned()) == len(One(len(COMPARED), True, True).findings.learned())
