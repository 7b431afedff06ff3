"""A model that was learned anew is used only if it predicts runs that neither model has seen no worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import pytest
from coadapt.estimators.learner import EndedRun, learn
from coadapt.estimators.relearning import Comparison, Fitted, relearn
from coadapt.estimators.run_lengths import MOST_LOSS, RunLengthLearner, RunLengths

LEARNER = RunLengthLearner()


def runs(*lengths_s: float, first_s: float = 10.0) -> list[EndedRun]:
    """Return runs of one script that end every 10 s."""
    return [EndedRun("u", "s", first_s + 10.0 * n, length) for n, length in enumerate(lengths_s)]


def median_s(model: RunLengths, script: str = "s") -> float:
    known = model.of("u", script)
    assert known is not None
    return known.seconds.median


def test_the_first_run_of_all_is_learned_at_once() -> None:
    found = relearn(LEARNER, Fitted(RunLengths()), runs(100.0), 50.0)
    assert median_s(found.fitted.model) == pytest.approx(100.0)
    assert found.fitted.until_s == 50.0
    assert found.comparison is None, "there was no run to learn from besides the one held back"


def test_a_single_new_run_is_learned_at_once() -> None:
    history = runs(100.0, 100.0, 400.0)
    found = relearn(LEARNER, Fitted(learn(LEARNER, history, 20.0), 20.0), history, 50.0)
    assert found.comparison is not None
    assert found.comparison.new_loss == found.comparison.old_loss
    assert median_s(found.fitted.model) > 150.0


def test_a_better_model_is_taken_and_knows_the_held_back_runs_too() -> None:
    history = runs(100.0, 100.0, 200.0, 200.0, 200.0, 200.0)
    found = relearn(LEARNER, Fitted(learn(LEARNER, history, 20.0), 20.0), history, 100.0)
    assert found.comparison is not None
    assert found.comparison.held_back == 2
    assert found.comparison.old_loss == pytest.approx(math.log(2.0))
    assert found.comparison.new_loss == pytest.approx(math.log(2.0) / 2)
    assert found.fitted.model == learn(LEARNER, history, 100.0)


def test_a_worse_model_is_not_taken_and_both_losses_are_told() -> None:
    history = runs(100.0, 100.0, 900.0, 900.0, 100.0, 100.0)
    in_use = Fitted(learn(LEARNER, history, 20.0), 20.0)
    found = relearn(LEARNER, in_use, history, 100.0)
    assert found.fitted is in_use
    assert found.comparison is not None
    assert found.comparison.old_loss == pytest.approx(0.0)
    assert found.comparison.new_loss == pytest.approx(math.log(9.0) / 2)
    assert found.comparison.text == (
        "the new model is not taken: its loss on 2 held-back runs is 1.099, that of the model in use 0.000"
    )


def test_what_was_not_taken_is_tried_again_with_all_runs_since() -> None:
    history = runs(100.0, 100.0, 900.0, 900.0, 100.0, 100.0)
    refused = relearn(LEARNER, Fitted(learn(LEARNER, history, 20.0), 20.0), history, 100.0).fitted
    later = history + runs(*[900.0] * 8, first_s=110.0)
    found = relearn(LEARNER, refused, later, 200.0)
    assert found.comparison is not None
    assert found.comparison.held_back == 6, "half of the twelve runs that ended since 20 s"
    assert found.fitted.model == learn(LEARNER, later, 200.0)


def test_runs_that_end_later_are_neither_learned_nor_held_back() -> None:
    history = runs(100.0, 110.0, 120.0, 130.0)
    at = relearn(LEARNER, Fitted(RunLengths()), history, 25.0)
    assert at == relearn(LEARNER, Fitted(RunLengths()), history[:2], 25.0)


def test_a_script_that_only_the_new_model_knows_speaks_for_it() -> None:
    history = [*runs(100.0, 100.0), *(EndedRun("u", "t", 100.0 + n, 300.0) for n in range(2))]
    found = relearn(LEARNER, Fitted(learn(LEARNER, history, 20.0), 20.0), history, 200.0)
    assert found.comparison == Comparison(1, pytest.approx(0.0), MOST_LOSS)
    assert median_s(found.fitted.model, "t") == pytest.approx(300.0)


def test_losses_are_of_seconds_and_of_samples_where_a_run_told_them() -> None:
    model = learn(LEARNER, [EndedRun("u", "s", 1.0, 100.0, 1000.0)], 1.0)
    assert LEARNER.loss(model, [EndedRun("u", "s", 2.0, 200.0, 1000.0)]) == pytest.approx(math.log(2.0) / 2)
    assert LEARNER.loss(model, [EndedRun("u", "s", 2.0, 200.0)]) == pytest.approx(math.log(2.0))
    assert LEARNER.loss(model, [EndedRun("u", "s", 2.0, 1e9)]) == MOST_LOSS, "one odd run does not decide alone"
    assert LEARNER.loss(model, [EndedRun("u", "s", 2.0, 0.0)]) == 0.0, "a run that never trained says nothing"


class NoLoss(RunLengthLearner):
    name: ClassVar[str] = "no_loss"

    def loss(self, model: RunLengths, runs: Sequence[EndedRun]) -> float:
        return math.nan


def test_a_loss_that_is_none_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="no_loss: loss: nan is not accepted, must be finite and 0 or more"):
        relearn(NoLoss(), Fitted(RunLengths()), runs(100.0, 100.0), 50.0)
