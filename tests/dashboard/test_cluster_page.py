"""The first page says in one sentence what the cluster does, and shows each GPU once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from coadapt.core.schemas import HealthView
from coadapt.dashboard.cluster_page import OTHERS, Alert, cluster_page
from coadapt.scheduler.views.cluster_views import cluster_view

from tests.support.cycles import World

WELL = HealthView(tick_age_s=0.1, round_age_s=2.0, degraded_since_s=None, degraded=None, trouble="", notes=[])

NO_JOBS: Any = {"names": {}, "waiting": [], "aside": [], "asides": 0}
NO_PRICES: Any = {"since_s": 0.0, "until_s": 86_400.0, "prices": {}}


def row(job_id: str, name: str, status: str = "running", reason: str = "") -> Any:
    return {"id": job_id, "name": name, "status": status, "reason": reason}


def view_of(folder: Path, nodes: str = "1x t4:4, 1x a100:2", story: str = "") -> Any:
    world = World(folder, nodes)
    world.play(story)
    last = world.cycle.last_round
    view = cluster_view(
        world.nodes.snapshot,
        tuple(world.store.unretired.values()),
        world.settings,
        world.cycle.rounds,
        last.plan if last else None,
    )
    world.store.close()
    return view


@pytest.mark.parametrize(
    ("statuses", "told"),
    [
        ({}, "0 jobs train on 0 of 6 GPUs."),
        ({"running": 1}, "1 job trains on 0 of 6 GPUs."),
        ({"running": 4, "restarting": 1, "waiting": 2}, "5 jobs train on 0 of 6 GPUs; 2 wait."),
        (
            {"waiting": 1, "measuring": 1, "paused": 1},
            "0 jobs train on 0 of 6 GPUs; 1 is being measured; 1 waits; 1 is paused.",
        ),
        (
            {"running": 1, "quarantined": 3, "evicted": 12_000},
            "1 job trains on 0 of 6 GPUs; 12,000 wait; 3 in quarantine.",
        ),
    ],
)
def test_one_sentence_says_what_the_cluster_does(tmp_path: Path, statuses: dict[str, int], told: str) -> None:
    assert cluster_page(view_of(tmp_path), WELL, statuses, NO_JOBS, NO_PRICES).answer == told


def test_a_cluster_without_nodes_says_so(tmp_path: Path) -> None:
    empty = {**view_of(tmp_path), "nodes": []}
    assert cluster_page(empty, WELL, {}, NO_JOBS, NO_PRICES).answer == "No node is here yet."
    told = cluster_page(empty, WELL, {"waiting": 2}, NO_JOBS, NO_PRICES).answer
    assert told == "No node is here yet. 2 jobs wait."


def test_each_gpu_is_one_square_with_its_job(tmp_path: Path) -> None:
    view = view_of(tmp_path, story="submit a unprofiled\nwish a t4-000:2\ngo\nruns a")
    page = cluster_page(view, WELL, {"running": 1}, {**NO_JOBS, "names": {"a-1": "resnet"}}, NO_PRICES)
    t4 = next(card for card in page.cards if card.gpu_type == "t4")
    assert [square.name for square in t4.squares] == ["resnet", "resnet", "", ""]
    assert (t4.free, [(one.name, one.gpus) for one in t4.jobs]) == (2, [("resnet", 2)])
    assert page.answer == "1 job trains on 2 of 6 GPUs."
    assert [(line.gpu_type, line.held, line.gpus) for line in page.types] == [("a100", 0, 2), ("t4", 2, 4)]


def test_jobs_that_one_may_not_see_have_no_name(tmp_path: Path) -> None:
    view = view_of(tmp_path, "1x t4:2")
    view["nodes"][0]["devices"][0]["tenants"] = {OTHERS: 1.0}
    view["nodes"][0]["jobs"] = {OTHERS: 1}
    (card,) = cluster_page(view, WELL, {"running": 1}, {**NO_JOBS, "names": {"a-1": "resnet"}}, NO_PRICES).cards
    assert (card.squares[0].name, card.jobs[0].name) == ("another user's job", "another user's job")


def test_what_needs_a_person_is_an_alert_and_nothing_else_is(tmp_path: Path) -> None:
    view = {**view_of(tmp_path), "notes": ["degraded since noon", "a node drains"]}
    hurt = HealthView(
        tick_age_s=0.1,
        round_age_s=2.0,
        degraded_since_s=5.0,
        degraded="disk is full",
        trouble="",
        notes=["degraded since noon"],
    )
    page = cluster_page(view, hurt, {}, NO_JOBS, NO_PRICES)
    assert page.alerts == (Alert("Nothing can be stored: disk is full. Jobs train on; changes are refused."),)
    assert page.notes == ("a node drains",)
    assert cluster_page(view, WELL, {}, NO_JOBS, NO_PRICES).alerts == ()


def test_jobs_that_are_set_aside_are_alerts_with_a_link(tmp_path: Path) -> None:
    aside = [row(f"a-{at}", f"a{at}", "quarantined", "its rows cannot be read") for at in range(3)]
    jobs = {**NO_JOBS, "aside": aside, "asides": 5}
    alerts = cluster_page(view_of(tmp_path), WELL, {}, jobs, NO_PRICES).alerts
    assert alerts[0] == Alert("a0: its rows cannot be read.", "/jobs/a-0")
    assert [alert.text for alert in alerts][3:] == ["2 more jobs take part in no round."]


def test_the_price_of_a_type_is_a_curve_over_a_day(tmp_path: Path) -> None:
    prices = {**NO_PRICES, "prices": {"t4": [(0.0, 1.0), (43_200.0, 3.0)]}}
    lines = cluster_page(view_of(tmp_path), WELL, {}, NO_JOBS, prices).types
    assert [(line.gpu_type, line.most) for line in lines] == [("a100", None), ("t4", 3.0)]
    assert lines[1].day == "0.0,15.3 50.0,15.3 50.0,2.0 100.0,2.0"
    assert lines[0].day == ""
