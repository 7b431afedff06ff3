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


def test_other_desks_go_by_the_settings_of_now(tmp_path: Path) -> None:
    service = service_of(World(tmp_path, "1x t4:4"))
    folder, _ = service.package_place()
    service.change_settings({"max_package_mib": 7}, "ann")
    assert service.package_place() == (folder, 7)
    assert service.settings()["max_package_mib"] == 7
