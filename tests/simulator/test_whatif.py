"""What would be with another job, other nodes or another policy: the same worlds, before and after."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.cluster import Node
from coadapt.core.teams import Teams
from coadapt.forecasts.questions import ANSWER, QUESTION, Change, Question
from coadapt.simulator.live_process import Answers
from coadapt.simulator.whatif import whatif

from ..support.live_states import live, past, state
from ..support.rounds import on

FIXED = {"adaptivity": "rigid", "resources": {"gpus": 4, "gpu_types": ["t4"]}}


def test_one_more_job_delays_those_behind_it_and_nobody_else() -> None:
    runs = live("a", 600.0, placement=on("t4", n0=4), **FIXED)
    short = live("new", 60.0, **FIXED)
    waits = live("b", 300.0, **FIXED)
    found = whatif(state("1x t4:4", [runs, waits], "srtf"), [], Change(submit=(short,)))
    assert "new" not in found.before.jobs
    assert found.after.jobs["new"].end is not None
    # Shortest first: the new job overtakes both.
    assert found.later["b"].at_s > 0
    assert found.before.jobs["b"].start is not None
    assert found.before.worlds == found.after.worlds


def test_more_nodes_let_a_waiting_job_start_at_once() -> None:
    runs = live("a", 600.0, placement=on("t4", n0=4), **FIXED)
    waits = live("b", 300.0, **FIXED)
    more = Node("t4-new", "t4", 4, cpus=8.0, memory_gib=64.0)
    found = whatif(state("1x t4:4", [runs, waits], "fifo"), [], Change(nodes=(more,)))
    assert found.later["b"].at_s < -50
    assert found.later["a"].at_s == pytest.approx(0.0, abs=1e-6)
    start = found.after.jobs["b"].start
    assert start is not None
    assert start.at_s - found.after.made_s <= 61


def test_without_a_node_its_job_waits_for_another_place() -> None:
    one = live("a", 600.0, placement=on("t4", n0=4), **FIXED)
    other = live("b", 900.0, placement=on("t4", n1=4), **FIXED)
    found = whatif(state("2x t4:4", [one, other], "fifo"), [], Change(without=("t4-001",)))
    assert found.later["b"].at_s > 60
    assert found.after.jobs["b"].start is not None


def test_another_policy_orders_jobs_otherwise() -> None:
    long = live("long", 3000.0, **FIXED)
    short = live("short", 60.0, **FIXED)
    found = whatif(state("1x t4:4", [long, short], "fifo"), [], Change(policy="srtf"))
    assert found.later["short"].at_s < -100
    assert found.later["long"].at_s > 0


def test_the_process_answers_lines_and_tells_what_it_cannot() -> None:
    answers = Answers()
    there = state("1x t4:4", [live("a", 600.0, placement=on("t4", n0=2))])
    asked = QUESTION.dump_json(Question("forecast", there, tuple(past(3))))
    found = ANSWER.validate_json(answers.line(asked))
    assert found.forecast is not None
    assert found.forecast.jobs["a"].end is not None
    wrong = ANSWER.validate_json(answers.line(b'{"kind": "dance"}'))
    assert wrong.error.startswith("the question is not understood")
    none = ANSWER.validate_json(
        answers.line(QUESTION.dump_json(Question("whatif", there, change=Change(policy="x"))))
    )
    assert "x" in none.error
    assert none.whatif is None
    hurried = QUESTION.dump_json(Question("forecast", there, cpu_s=1e-9))
    short = ANSWER.validate_json(answers.line(hurried))
    assert short.too_long


def test_a_cap_that_is_raised_lets_the_team_have_more() -> None:
    capped = Teams.model_validate({"teams": {"vision": {"users": ["ada"], "cap": {"t4": 1}}}, "prices": {"t4": 1}})
    raised = Teams.model_validate({"teams": {"vision": {"users": ["ada"], "cap": {"t4": 4}}}, "prices": {"t4": 1}})
    one = live("a", 3000.0, placement=on("t4", n0=1), resources={"gpu_types": ["t4"]})
    job = replace(one, spec=one.spec.model_copy(update={"team": "vision"}))
    there = replace(state("1x t4:4", [job]), teams=capped)
    found = whatif(there, [], Change(teams=raised))
    assert found.later["a"].at_s < -300
    assert max(hold.gpus for hold in found.before.jobs["a"].holds) == 1
