"""What an operator changes counts for all parts from then on, and what cannot be changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from coadapt.core.errors import SettingError

from tests.support.api import service_of
from tests.support.cycles import World


def test_another_policy_plans_the_next_round(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    service = service_of(world)
    assert service.change_settings({"policy": "fifo", "node_refresh_s": 2}, "ann") == ["policy", "node_refresh_s"]
    assert service.parts.view.refresh_s == 2
    world.play("submit a unprofiled\ngo\n")
    last = world.cycle.last_round
    assert last is not None
    assert world.settings.policy == "fifo"
    assert service.parts.policy.now is world.cycle._policy


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"policy": "siaa"}, r"siaa.* is unknown"),
        ({"policy_options": {"q": 1}}, "q"),
        ({"round_interval_s": -1}, "round_interval_s: -1 is not a number above 0"),
    ],
)
def test_what_cannot_be_changes_nothing(tmp_path: Path, wanted: dict[str, Any], says: str) -> None:
    world = World(tmp_path, "1x t4:4")
    before = world.settings.model_dump()
    with pytest.raises(SettingError, match=says):
        service_of(world).change_settings(wanted)
    assert world.settings.model_dump() == before
    assert world.store.cluster_events() == []


def test_what_others_change_while_a_policy_compiles_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, meanwhile = service_of(World(tmp_path, "1x t4:4")), [{"round_interval_s": 30.0}, {"policy": "srtf"}]

    def compiles(*_: object) -> None:
        if meanwhile:
            service.change_settings(meanwhile.pop(0), "bob")

    monkeypatch.setattr("coadapt.scheduler.desks.settings.load_kernels", compiles)
    assert service.change_settings({"policy": "fifo", "debounce_s": 2}, "ann") == ["policy", "debounce_s"]
    now = service.settings()
    assert (now["policy"], now["debounce_s"], now["round_interval_s"]) == ("fifo", 2.0, 30.0)
    assert service.parts.policy.now is service.parts.cycle._policy


def test_a_plan_of_the_policy_before_is_not_explained_by_the_new_one(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    service = service_of(world)
    world.play("submit a unprofiled\ngo")
    policy, plan = world.policy, world.policy.plan

    def changed_meanwhile(round: Any) -> Any:
        service.change_settings({"policy": "fifo"}, "ann")
        return plan(round)

    policy.plan = changed_meanwhile
    world.cycle.ask_round()
    world.clock.forward(10)
    world.cycle.step()
    assert service.parts.policy.now is world.cycle._policy
    assert world.cycle.last_round is None
    assert service.explain("a-1")["lines"]


def test_other_desks_go_by_the_settings_of_now(tmp_path: Path) -> None:
    service = service_of(World(tmp_path, "1x t4:4"))
    folder, _ = service.package_place()
    service.change_settings({"max_package_mib": 7}, "ann")
    assert service.package_place() == (folder, 7)
    assert service.settings()["max_package_mib"] == 7
