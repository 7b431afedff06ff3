"""Nobody who sets a machine's clock ends a wait too early or too late, also over a restart of the service."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from coadapt.scheduler.runtime import clock
from coadapt.scheduler.runtime.clock import SystemClock, _begin_s
from coadapt.scheduler.views.shown_moments import shown

from tests.support.cycles import RUNS, World
from tests.support.layout import ROOT

HOUR_S = 3600.0
BEFORE = json.dumps({"steady_s": 5000.0, "boot_s": 100.0, "boot": "b"})


@pytest.mark.parametrize(
    ("before", "wall_s", "since_boot_s", "boot", "expected"),
    [
        (None, 9000.0, 50.0, "b", 9000.0),
        (BEFORE, 9000.0, 130.0, "b", 5030.0),
        (BEFORE, 1000.0, 130.0, "b", 5030.0),
        (BEFORE, 9000.0, 20.0, "c", 9000.0),
        (BEFORE, 1000.0, 20.0, "c", 5000.0),
        (BEFORE, 9000.0, 130.0, "", 9000.0),
        ("{", 9000.0, 130.0, "b", 9000.0),
        ('{"steady_s": "x"}', 9000.0, 130.0, "b", 9000.0),
    ],
    ids=["first", "goes on", "set back", "other boot", "other boot, set back", "no id", "torn", "of no number"],
)
def test_time_goes_on_after_a_restart(
    before: str | None, wall_s: float, since_boot_s: float, boot: str, expected: float
) -> None:
    assert _begin_s(before, wall_s, since_boot_s, boot) == expected


def test_a_clock_that_is_set_moves_no_steady_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SystemClock()
    at = before.steady_s()
    wall_s = before.wall_s()
    monkeypatch.setattr(clock.time, "time", lambda: wall_s - HOUR_S)
    assert 0.0 <= before.steady_s() - at < 60.0
    after = SystemClock(before.saved())
    assert 0.0 <= after.steady_s() - at < 60.0
    assert after.wall_s() == wall_s - HOUR_S


@pytest.mark.parametrize("set_s", [-HOUR_S, HOUR_S])
def test_whoever_sets_the_clock_evicts_no_job_delays_no_round_and_counts_no_time(
    set_s: float, tmp_path: Path
) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "submit b unprofiled\nwish a\nwish b t4-000:4\ngo\n? sent assign a nothing")
    world.clock.set_s = set_s
    world.play("go\n? sent\nleft a\ngo\n? sent assign b 4xt4\nafter 61\ngo 1\n? sent retire a")
    assert all(one.end_s is None or one.end_s >= one.start_s for one in world.store.intervals())
    assert world.store.held_time(world.ids["a"]).gpu_s(world.clock.steady_s()) >= 0.0


def test_people_see_moments_by_the_clock_on_their_wall() -> None:
    view = {"submitted_s": 100.0, "finished_s": None, "events": [{"time_s": 150.0, "text": "x"}], "gpu_s": 7.0}
    assert shown(view, 0.5) is view
    assert shown(view, -50.0) == {
        "submitted_s": 50.0,
        "finished_s": None,
        "events": [{"time_s": 100.0, "text": "x"}],
        "gpu_s": 7.0,
    }


def test_no_other_module_of_the_scheduler_asks_for_the_time_of_day() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "scheduler").rglob("*.py"))
        if path.name != "clock.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.time", "datetime.now", "time.time_ns")
    ]
    assert found == []
