"""What would have to give for a deadline to hold: jobs, nodes, or the deadline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coadapt.core.rewards import Rewards
from coadapt.forecasts.questions import ANSWER, QUESTION, Question
from coadapt.forecasts.state import LiveJob
from coadapt.simulator.giving import giving
from coadapt.simulator.live_process import Answers

from ..support.live_states import NOW_S, live, state
from ..support.rounds import on

ONE: dict[str, Any] = {"adaptivity": "rigid", "resources": {"gpus": 1, "gpu_types": ["t4"]}}


def due(job: LiveJob, seconds: float) -> LiveJob:
    """Return a job with a deadline in so many seconds from now."""
    return replace(job, rewards=Rewards.strict(NOW_S - job.submitted_s + seconds))


def test_what_holds_needs_nothing() -> None:
    found = giving(state("1x t4:1", [due(live("a", 600.0, **ONE), 900.0)], "fifo"), (), "a")
    assert found.holds
    assert found.end is not None
    assert not (found.without)
    assert not (found.nodes)
    assert not (found.later_s)


def test_jobs_before_it_or_a_node_or_time_would_have_to_give() -> None:
    first = live("first", 600.0, placement=on("t4", n0=1), **ONE)
    second, small = live("second", 900.0, **ONE), live("small", 60.0, **ONE)
    waits = due(live("waits", 600.0, submitted_s=NOW_S - 50.0, **ONE), 1000.0)
    found = giving(state("1x t4:1", [first, second, small, waits], "fifo"), (), "waits", cpu_s=30.0)
    assert not found.holds
    assert found.alone
    assert set(found.without) == {"first", "second"}, "the small one alone leaves room"
    assert (found.nodes, found.node) == (2, "t4:1")
    assert found.end is not None
    assert found.later_s is not None
    assert 1000.0 < found.later_s - NOW_S <= found.end.high_s - NOW_S


def test_under_unisched_only_other_deadlines_are_in_the_way() -> None:
    best = [live(f"b{i}", 900.0, **ONE) for i in range(3)]
    other = due(live("other", 1200.0, **ONE), 1450.0)
    asked = due(live("asked", 1200.0, submitted_s=NOW_S - 50.0, **ONE), 1500.0)
    found = giving(state("1x t4:1", [*best, other, asked], "unisched"), (), "asked", cpu_s=30.0)
    assert found.without == ("other",)
    assert found.nodes == 1


def test_what_is_too_long_by_itself_needs_a_later_deadline() -> None:
    asked = due(live("asked", 1200.0, placement=on("t4", n0=1), **ONE), 600.0)
    found = giving(state("1x t4:1", [asked], "fifo"), (), "asked", cpu_s=30.0)
    assert not found.alone
    assert not (found.without)
    assert not (found.nodes)
    assert found.later_s is not None
    assert found.later_s - NOW_S == pytest.approx(1320.0, rel=0.08), "1,200 s and 10 % that nobody knows"


def test_nothing_is_promised_of_a_job_of_which_nothing_is_known() -> None:
    found = giving(state("1x t4:1", [due(live("a", None, **ONE), 900.0)], "fifo"), (), "a")
    assert found.end is None
    assert not found.holds
    assert not (found.without)
    assert not (found.nodes)
    assert not (found.later_s)


def test_a_job_without_a_deadline_is_refused_in_a_sentence() -> None:
    asked = Question("deadline", state("1x t4:1", [live("a", 600.0, **ONE)], "fifo"), job="a")
    answer = ANSWER.validate_json(Answers().line(QUESTION.dump_json(asked)))
    assert answer.error == "job: 'a' is not to run, or has no deadline"
    asked = replace(asked, state=state("1x t4:1", [due(live("a", 600.0, **ONE), 900.0)], "fifo"))
    answer = ANSWER.validate_json(Answers().line(QUESTION.dump_json(asked)))
    assert answer.gives is not None
    assert answer.gives.holds
