"""Deadlines of live jobs: who is told, what a missed one does, and that policies see them."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.core.deadline_answer import Answer
from coadapt.core.job_limits import JobLimitError
from coadapt.core.rewards import Rewards
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.contract.traits import PolicyTraits
from coadapt.scheduler.forecasts.deadline_answers import DeadlineAnswers

from tests.support.api import service_of
from tests.support.cycles import World

SERVES = PolicyTraits(fixed_sizes=False, uses_models=True, preempts=True, serves_deadlines=True)
RUNS_UNTIL = """
wish a t4-000:2
go
? sent assign a 2xt4
runs a
after 3500
go
? a running
"""
STORIES = {
    "a job that missed its deadline goes on as best effort, and is told so once": """
        submit a unprofiled deadline=1h
    """
    + RUNS_UNTIL
    + """
        after 200
        go
        go
        ? a running
        ? did a admitted, placed, deadline, running, deadline
        ? a said its last deadline, 60 min after submission, has passed: it goes on as best effort
    """,
    "a job may ask to save and end then": """
        submit a unprofiled deadline=1h on_missed=cancel
    """
    + RUNS_UNTIL
    + """
        after 200
        go
        ? sent assign a nothing
        left a
        go
        ? a cancelled
        ? a because its last deadline, 60 min after submission, has passed
    """,
    "a job that is resumed after that goes on without a deadline": """
        submit a unprofiled deadline=1h on_missed=cancel
        after 3700
        go
        ? a cancelled
        resume a
        wish a t4-000:2
        go
        runs a
        after 9000
        go
        ? a running
    """,
    "one that has ended before is told nothing": """
        submit a unprofiled deadline=1h on_missed=cancel
    """
    + RUNS_UNTIL
    + """
        finish a
        after 9000
        go
        ? a succeeded
        ? did a admitted, placed, deadline, running, finish
    """,
}


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_deadlines(tmp_path: Path, story: str) -> None:
    World(tmp_path, "1x t4:4", traits=SERVES).play(STORIES[story])


def test_a_deadline_under_a_policy_that_looks_at_none_is_said_to_count_for_nothing(tmp_path: Path) -> None:
    World(tmp_path, "1x t4:4").play("""
        submit a unprofiled deadline=1h
        go
        ? did a deadline, admitted, deadline
        ? a said its deadline: measured first: the answer comes once it has trained for a while
        ? a said its deadline counts for nothing, as the policy of this cluster looks at none
        after 10
        go
        ? did a deadline, admitted, deadline
    """)


def test_what_was_told_is_still_known_after_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4", traits=SERVES)
    world.play("submit a unprofiled deadline=1h\nafter 3700\ngo\n? did a deadline, admitted\nreopen\ngo\n")
    world.play("? did a deadline, admitted\n")


class Watching:
    """A planner that keeps the rounds that it is asked for, and gives nothing."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []

    def plan(self, round: Round) -> Plan:
        self.rounds.append(round)
        return Plan({})


def test_policies_see_rewards_and_bumping_a_job_moves_no_deadline(tmp_path: Path) -> None:
    planner = Watching()
    world = World(tmp_path, "1x t4:4", planner=planner, traits=SERVES)
    world.play("submit a unprofiled\nafter 600\nsubmit b unprofiled deadline=1h\ngo\n")
    submitted_s = world.job("b").state.submitted_s
    assert [job.rewards for job in planner.rounds[-1].jobs] == [None, Rewards.strict(3600.0)]
    world.play("stand b bump\nafter 60\ngo\n")
    (seen,) = (job for job in planner.rounds[-1].jobs if job.rewards is not None)
    assert seen.submitted_s < submitted_s
    assert seen.rewards is not None
    assert seen.submitted_s + seen.rewards.last_s == pytest.approx(submitted_s + 3600.0)


def test_the_service_refuses_what_has_passed_and_what_is_worth_too_much(tmp_path: Path) -> None:
    service = service_of(World(tmp_path, "1x t4:4"))
    start = '{"name": "a", "script": "t.py", "deadline": '
    for deadline, told in [
        ('"1970-01-01T00:00:01Z"', "deadline.by: 1970-01-01T00:00:01Z has passed"),
        ('{"worth": {"1h": 250}}', "deadline.worth: 250 is more than 100"),
    ]:
        with pytest.raises(JobLimitError, match=told):
            service.submit(f"{start}{deadline}}}", None, "key", "", "")
    assert service.submit(f'{start}"1h"}}', None, "key", "", "") == "a-1"


ANSWERS = {
    "each change of the answer is told once": """
        submit a unprofiled deadline=1h
        foretell a 30 5
        go
        go
        ? a said its deadline: on time, expected end in 30 min ± 5 min
        ? did a admitted, deadline
        foretell a 56 5
        go
        ? did a admitted, deadline
        foretell a 58 5
        go
        ? a said its deadline: at risk, expected end in 58 min ± 5 min
        foretell a 80 5
        go
        ? a said its deadline: cannot be met, runs as best effort, expected end in 80 min ± 5 min
        ? did a admitted, deadline, deadline, deadline
    """,
    "a killed service tells nothing again": """
        submit a unprofiled deadline=1h
        foretell a 30 5
        go
        ? did a admitted, deadline
        reopen
        go
        go
        ? did a admitted, deadline
    """,
    "a job of which nothing is known is measured first, and the answer says when it comes": """
        submit a types=t4 deadline=1h
        go
        ? a profiling
        ? a said its deadline: measured first: the answer comes in about 60 s
        measured a t4
        go
        foretell a 30 5
        go
        ? a said its deadline: on time, expected end in 30 min ± 5 min
        ? did a admitted, deadline, profiling, profiled, released, deadline
    """,
    "a job that its user holds is told nothing": """
        submit a unprofiled deadline=1h
        stand a hold
        foretell a 30 5
        go
        ? did a hold, admitted
    """,
}


@pytest.mark.parametrize("story", ANSWERS, ids=str)
def test_answers(tmp_path: Path, story: str) -> None:
    World(tmp_path, "1x t4:4", traits=SERVES).play(ANSWERS[story])


def test_a_restarted_service_changes_no_answer_of_a_running_job_before_it_reports(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4", traits=SERVES)
    world.play(
        "submit a unprofiled deadline=1h\nwish a t4-000:2\ngo\nruns a\nforetell a 30 1\ngo\nforetell a 90 1"
    )
    now, last = world.clock.now_s, world.cycle.last_round
    answers = DeadlineAnswers(lambda: world.store.unretired.values(), world.predicted.get, began_s=now)
    assert not answers.news(last, now)
    shown = answers.of(world.job("a"), last, now)
    assert shown is not None
    assert shown.answer is Answer.ON_TIME
    later = DeadlineAnswers(lambda: world.store.unretired.values(), world.predicted.get, began_s=now - 130)
    assert later.news(last, now), "it is not waited for for ever"
    world.play("after 5\nreport a t4")
    found = answers.news(world.cycle.last_round, world.clock.now_s)
    assert found[world.ids["a"]].answer is Answer.CANNOT
