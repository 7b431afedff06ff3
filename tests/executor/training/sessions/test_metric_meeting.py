"""Replicas put their metrics together, and what they have seen of their loops; nobody leaves a loop alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from coadapt.core.reports import MeasuredAt
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.training.collective.group import Disagreement
from coadapt.executor.training.data.loop_habits import LoopHabits
from coadapt.executor.training.sessions.loop_state import LoopState
from coadapt.executor.training.sessions.metric_meeting import MetricMeeting
from coadapt.executor.training.sessions.metrics import Metrics
from coadapt.executor.training.sessions.peers import Peers
from coadapt.executor.training.sessions.sample_counts import SampleCounts
from coadapt.executor.training.sessions.step_in_hand import StepInHand
from coadapt.executor.training.state.training_state import Position
from coadapt.executor.training.tracking.forwarding import Trackers

HERE = MeasuredAt(2, 640)


@dataclass
class Data:
    """Stands for `BatchLoop`: ten batches of 32 samples, or of unknown size."""

    size: int | None = 320
    script_batch: int = 32

    @property
    def source(self) -> Data:
        return self

    @property
    def scale(self) -> Data:
        return self

    def batch_count(self) -> int:
        return 10


@dataclass
class Fusing:
    habits: LoopHabits = field(default_factory=LoopHabits)
    all_looked: bool = False


@dataclass
class Progress:
    here: MeasuredAt = HERE
    where: str = "epoch 2 of 5"


class Replica:
    """What one replica has reported and seen."""

    def __init__(self, steps: float | None = None, data: Data | None = None, **config: Any) -> None:
        self.metrics, self.samples, self.fusing, self.peers = Metrics(), SampleCounts(), Fusing(), Peers()
        self.loop = LoopState(Position(last_samples=320), StepInHand(), step_count=steps)
        self.meeting = MetricMeeting(
            TrainingConfig.model_validate(config), self.metrics, self.loop, self.samples, Progress(), self.peers,
            self.fusing, data or Data(), Trackers(),
        )  # fmt: skip

    def report(self, samples: int, how: dict[str, str] | None = None, **values: float) -> Replica:
        self.metrics.add(values, how or {}, HERE)
        self.samples.local = self.samples.apart = samples
        return self


class Together:
    """A group whose replicas answer one after the other: each is asked once for what it tells."""

    rank = 0

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.told: list[Any] = []
        self.replicas = replicas

    def gather_objects(self, mine: Any) -> list[Any]:
        self.told.append(mine)
        return self.told if len(self.told) == len(self.replicas) else [mine]

    def differ(self, sentence: str) -> None:
        raise Disagreement(sentence)


def meet(*replicas: Replica, leaves: Sequence[bool] = ()) -> bool:
    """Let all combine; what holds is what the last one, who has heard all others, then knows."""
    group, found = Together(replicas), False
    for replica, leaving in zip(replicas, [*leaves, *[False] * (len(replicas) - len(leaves))], strict=True):
        last = replica is replicas[-1]
        try:
            found = replica.meeting.combine(group, leaving)
        except Disagreement:
            if last:
                raise
    return found


def test_means_are_weighed_by_samples_and_counts_add_up() -> None:
    a, b = Replica().report(30, loss=1.0, hits=10), Replica().report(10, loss=2.0, hits=6)
    meet(a, b)
    assert b.metrics.combined == {"loss": pytest.approx(1.25), "hits": 16}
    assert b.metrics.fresh == set()
    assert b.metrics.at == {"loss": HERE, "hits": HERE}


def test_a_way_that_one_replica_asked_for_holds() -> None:
    a, b = Replica().report(8, best=1.0), Replica().report(8, {"best": "max"}, best=3.0)
    meet(a, b)
    assert b.metrics.combined == {"best": 3.0}


def test_parts_of_a_mean_over_all_samples_add_up_to_it() -> None:
    a, b = Replica().report(8, loss=0.3, acc=0.9), Replica().report(8, loss=0.2, acc=0.8)
    for one in (a, b):
        one.metrics.parts = {"loss": 0.0, "acc": 1.0}
    meet(a, b)
    assert b.metrics.combined == {"loss": pytest.approx(0.5), "acc": pytest.approx(0.7)}


def test_what_only_some_report_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = (Replica().report(8, loss=1.0) for _ in range(3))
    for one in (a, b):
        one.report(8, extra=1.0)
    meet(a, b, c)
    assert "extra is reported by 2 of 3 replicas only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        (lambda one: None, False),
        (lambda one: setattr(one.fusing.habits, "counts", True), True),
        (lambda one: setattr(one.loop, "one_pass", True), True),
        (lambda one: setattr(one.loop.position, "last_samples", 300), True),
        (lambda one: setattr(one.loop.position, "last_samples", 318), False),
    ],
    ids=["nobody counts", "a counter", "steps in a pass", "a pass left early", "a pass with a rest"],
)
def test_a_loop_counts_its_batches_where_one_replica_has_seen_it(change: Any, counted: bool) -> None:
    a, b = Replica().report(8), Replica().report(8)
    change(a)
    meet(a, b)
    assert b.loop.position.counted is counted


def test_a_pass_over_data_of_unknown_size_was_a_whole_one() -> None:
    one = Replica(data=Data(size=None))
    one.loop.position.last_samples = 0
    meet(one)
    assert not one.loop.position.counted


def test_all_have_looked_where_each_has() -> None:
    a, b = Replica(), Replica()
    for one in (a, b):
        one.fusing.habits._looks = 4
    meet(a, b)
    assert b.fusing.all_looked
    a.fusing.habits._looks = 1
    meet(a, b)
    assert not b.fusing.all_looked


def test_replica_0_may_leave_its_loop_for_all_and_no_other_one() -> None:
    assert meet(Replica(), Replica(), leaves=[True, True])
    assert not meet(Replica(), Replica())
    with pytest.raises(Disagreement, match="replica 1 has left its loop at epoch 2 of 5, replica 0 goes on"):
        meet(Replica(), Replica(), leaves=[False, True])


TARGET = {"target": {"metric": "acc", "at_least": 0.9}}


def test_the_target_is_reached_by_what_all_have_together() -> None:
    a, b = Replica(**TARGET).report(8, acc=0.95), Replica(**TARGET).report(8, acc=0.8)
    meet(a, b)
    assert not b.meeting.target_reached
    b.metrics.combined["acc"] = 0.9
    assert b.meeting.target_reached
    assert not Replica().report(8, acc=1.0).meeting.target_reached


@pytest.mark.parametrize(
    ("steps", "config", "metric", "news"),
    [(10, TARGET, "acc", True), (10, TARGET, "loss", False), (None, TARGET, "acc", False), (10, {}, "acc", False)],
)
def test_only_a_loop_in_steps_that_reports_its_target_has_news(
    steps: float | None, config: dict[str, Any], metric: str, news: bool
) -> None:
    found = Replica(steps, **config).report(8, **{metric: 0.5})
    assert found.meeting.has_news is news
    meet(found)
    assert not found.meeting.has_news
