"""What an operator changes while the scheduler runs is stored, told, and lasts until it is typed otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from coadapt.core.settings import Settings
from coadapt.core.settings_change import changed
from coadapt.scheduler.runtime.live_settings import FACT, LiveSettings
from coadapt.scheduler.store.store import Store


def begun(store: Store, up: str, **typed: Any) -> LiveSettings:
    """Start a service: `up` names when its settings were typed."""
    return LiveSettings(store, Settings(state_dir="/nowhere", **typed), up)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "jobs.sqlite")


def change(live: LiveSettings, **wanted: Any) -> list[str]:
    return live.change(changed(live.now, wanted), "ann", 5.0)


def test_a_change_counts_at_once_and_is_told_with_who_asked(store: Store) -> None:
    live = begun(store, "1")
    assert change(live, round_interval_s=30) == ["round_interval_s"]
    assert live.now.round_interval_s == 30
    (event,) = store.cluster_events()
    assert (event.kind, event.who, event.time_s) == ("settings", "ann", 5.0)
    assert event.data["text"] == "round_interval_s is 30.0, and was 60.0"
    assert change(live, round_interval_s=30) == []
    assert len(store.cluster_events()) == 1


def test_changes_last_over_restarts_also_of_what_was_typed(store: Store) -> None:
    change(begun(store, "1", policy="fifo"), policy="sjf", round_interval_s=30)
    again = begun(store, "1", policy="fifo").now
    assert (again.policy, again.round_interval_s) == ("sjf", 30)


def test_what_is_typed_at_a_later_start_counts_more(store: Store) -> None:
    change(begun(store, "1"), policy="sjf", round_interval_s=30)
    later = begun(store, "2", policy="fifo").now
    assert (later.policy, later.round_interval_s) == ("fifo", 30)
    assert begun(store, "2", policy="fifo").now.policy == "fifo", "also after a restart"
    rows = {row["name"]: row for row in begun(store, "3").rows()}
    assert (rows["policy"]["changed"], rows["round_interval_s"]["changed"]) == (False, True)
    assert rows["state_dir"]["fixed"].startswith("it names a place")


def test_changes_that_another_version_does_not_accept_are_left_out(store: Store) -> None:
    store.write_fact(FACT, '{"begun": "1", "changed": {"colour": 1, "policy": "none", "debounce_s": -1}}')
    assert begun(store, "1").now == Settings(state_dir="/nowhere")
    store.write_fact(FACT, "{")
    assert begun(store, "1").now == Settings(state_dir="/nowhere")
