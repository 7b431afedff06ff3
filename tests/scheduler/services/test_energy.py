"""Promises of the service `energy`: what waits wakes machines, and what idles for hours may sleep."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.estimators.node_series import SLOT_S
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.fifo import FifoPolicy
from coadapt.policies.sleeping.counts import TrendRule
from coadapt.scheduler.services.contract import Advice, NodeCounts, NodeKind
from coadapt.scheduler.services.energy import Energy, EnergyOptions

from tests.support.node_counts import MONDAY_S, daily
from tests.support.rounds import on
from tests.support.sleeping import machines, rigid

T4 = NodeKind("", "t4")
RECENT = {"rule": "recent", "history_s": 3600.0}


def counts(at_s: float, running: int, total: int, kind: NodeKind = T4) -> NodeCounts:
    return NodeCounts(at_s, {kind: running} if running else {}, {kind: total})


def service(**options: Any) -> Energy:
    return Energy(EnergyOptions(**options))


def idle_for(hours: int, running: int, total: int, **options: Any) -> Energy:
    found = service(**options)
    for slot in range(hours * 6):
        found.observe(counts(MONDAY_S + SLOT_S * slot, running, total))
    return found


def advice(found: Energy, now: float, awake: tuple[Node, ...], asleep: tuple[Node, ...], *jobs: JobView) -> Advice:
    round = Round(7.0, 60.0, Cluster(awake), list(jobs), asleep)
    return found.advise(now, round, FifoPolicy().plan(round))


def test_what_was_not_needed_lately_may_sleep_but_for_a_buffer() -> None:
    found = idle_for(2, 1, 6, **RECENT, buffer=2)
    runs = rigid("x", 8, placement=on("t4", n0=8))
    said = advice(found, MONDAY_S + 7200, machines(6), (), runs)
    assert said.sleep == ("m-t4-005", "m-t4-004", "m-t4-003")
    assert said.wake == ()
    assert said.reasons["m-t4-005"] == "It is idle, and 3 of 6 t4 nodes are likely enough for 0.167 h."
    assert said.until_s["m-t4-005"] > MONDAY_S + 7200


def test_sleep_is_looked_at_every_ten_minutes_on_the_clock_of_the_caller() -> None:
    found = idle_for(2, 1, 6, **RECENT)
    first = advice(found, MONDAY_S + 7230, machines(6), ())
    assert first.sleep
    assert first.again_s == pytest.approx(7.0 + 570)
    assert advice(found, MONDAY_S + 7260, machines(6), ()).sleep == ()
    assert advice(found, MONDAY_S + 7800, machines(6), ()).sleep


def test_a_job_that_waits_wakes_its_machines_and_the_buffer_at_once() -> None:
    found = idle_for(2, 1, 6, **RECENT, buffer=1)
    runs, waits = rigid("x", 8, placement=on("t4", n0=8)), rigid("y", 16)
    said = advice(found, MONDAY_S + 7230, machines(1), machines(5, first=1), runs, waits)
    assert said.wake == ("m-t4-001", "m-t4-002", "m-t4-003")
    assert said.reasons["m-t4-001"] == "Job y waits for 16 GPUs of type t4."
    assert said.reasons["m-t4-003"] == "It is woken beside others, so that the next jobs find room."
    assert said.sleep == ()


def test_machines_on_their_way_back_are_not_woken_again_until_they_should_be_back() -> None:
    found = idle_for(2, 1, 6, **RECENT, buffer=0, boot_s=300)
    waits = rigid("y", 16)
    assert advice(found, MONDAY_S + 7230, (), machines(6), waits).wake == ("m-t4-000", "m-t4-001")
    assert advice(found, MONDAY_S + 7290, (), machines(6), waits).wake == ()
    assert advice(found, MONDAY_S + 7590, (), machines(6), waits).wake == ("m-t4-000", "m-t4-001")


def test_nothing_sleeps_beside_a_job_that_waits_for_it() -> None:
    found = idle_for(2, 1, 6, **RECENT)
    runs = rigid("x", 1, placement=on("t4", n0=1))
    assert advice(found, MONDAY_S + 7200, machines(2), (), runs, rigid("y", 16)).sleep == ()


def test_nothing_that_runs_or_leaves_sleeps() -> None:
    found = idle_for(2, 0, 3, **RECENT, buffer=0)
    leaving = rigid("x", 8, placement=on("t4", n2=8))
    round = Round(0.0, 60.0, Cluster(machines(3)), [leaving], ())
    plan = Plan({}, decisions={"x": Waiting(WaitReason.PAUSED, "Its user has paused it.")})
    assert found.advise(MONDAY_S + 7200, round, plan).sleep == ("m-t4-001", "m-t4-000")


def test_without_a_forecast_what_a_day_needed_stays_awake() -> None:
    found = idle_for(4, 2, 8)
    found.observe(counts(MONDAY_S + 14_400, 0, 8))
    assert len(advice(found, MONDAY_S + 14_400, machines(8), ()).sleep) == 5


def test_each_pool_may_be_asked_about_by_itself_and_forecasts_are_learned() -> None:
    found = service(buffer=1)
    lab = NodeKind("lab", "t4")
    series = daily(5, total=20, swing=8, noise=0.5)
    for slot, running in enumerate(series.running.tolist()):
        at_s = MONDAY_S + SLOT_S * slot
        found.observe(counts(at_s, running, 20))
        found.observe(counts(at_s, min(running // 2, 9), 10, lab))
        assert found.fit_due(at_s) == (slot >= 432)
    found.take(found.fitting(series.end_s)())
    assert not found.fit_due(series.end_s + 3600)
    assert found.fit_due(series.end_s + 86_400)
    round = Round(0.0, 60.0, Cluster(machines(10), pool="lab"), [], ())
    assert found.advise(series.end_s, round, Plan({})).sleep


def test_a_service_that_starts_again_goes_on_with_what_it_learned() -> None:
    found, again = service(), service()
    assert found.document() is None
    series = daily(5, total=20, swing=8, noise=0.5)
    for slot, running in enumerate(series.running.tolist()):
        found.observe(counts(MONDAY_S + SLOT_S * slot, running, 20))
    found.take(found.fitting(series.end_s)())
    document = json.loads(json.dumps(found.document()))
    again.read(document)
    again.observe(counts(series.end_s, 3, 20))
    found.observe(counts(series.end_s, 3, 20))
    one, other = (advice(it, series.end_s + SLOT_S, machines(20), ()) for it in (found, again))
    assert one == other
    assert one.sleep
    for bad in ({}, {**document, "model": {}}, {**document, "counts": [{}]}):
        with pytest.raises(ValueError, match="energy: "):
            again.read(bad)


def test_the_published_settings_are_presets_and_each_may_be_changed() -> None:
    rule = EnergyOptions(rule="trend", preset="philly", buffer=7).count_rule()
    assert isinstance(rule, TrendRule)
    assert (rule.buffer, rule.history, rule.future, rule.hold) == (7, 2, 30, 10)


def test_advice_is_reproducible() -> None:
    rng = np.random.default_rng(0)
    load = [int(rng.integers(0, 6)) for _ in range(30)]
    said = []
    for _ in range(2):
        found = service(**RECENT)
        for slot, running in enumerate(load):
            found.observe(counts(MONDAY_S + SLOT_S * slot, running, 6))
        said.append(advice(found, MONDAY_S + SLOT_S * 30, machines(6), ()))
    assert said[0] == said[1]
