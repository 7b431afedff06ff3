"""Whoever asks about jobs is told what is known, and nothing of nodes before they are."""

from __future__ import annotations

from pathlib import Path

from tests.support.api import service_of
from tests.support.cycles import World


def test_no_job_is_said_to_lack_a_gpu_type_before_the_nodes_are_known(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2")
    world.play("unready\nsubmit a")
    service = service_of(world)
    ((row,), _) = service.page(None, 10)
    found = service.explain(row["id"])
    assert (row["wait_reason"], found["reason"]) == ("next_round", "next_round")
    assert found["lines"] == ["a-1 is waiting: it takes part in the next round"]
