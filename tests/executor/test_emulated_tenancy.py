"""A worker on emulated GPUs hears at once who comes and goes, and says so."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest
from coadapt.core.slot import Slot
from coadapt.executor.emulated_gpu import NoRoom, TenantProfile
from coadapt.executor.emulated_tenancy import EmulatedTenancy

WAIT_S = 30.0
TABLE = TenantProfile("a", memory_gib=9.0, beside={"a": (0.75, 0.75)}, source="pairs.csv")


class Worker:
    def __init__(self, folder: Path, job: str, *devices: int, gib: float = 4.0) -> None:
        self.speeds: queue.Queue[float] = queue.Queue()
        self.said: queue.Queue[str] = queue.Queue()
        profile = TenantProfile("a", memory_gib=gib, beside=TABLE.beside, source=TABLE.source)
        slot = Slot("n1", "l", devices, "t4", emulated=True)
        self.tenancy = EmulatedTenancy(
            slot, job, "w1", profile, lambda: self.speeds.put(self.tenancy.speed), self.said.put, print, folder
        )


def test_both_hear_of_each_other_and_the_one_that_stays_that_it_is_alone(tmp_path: Path) -> None:
    one, two = Worker(tmp_path, "j1", 0, 1), Worker(tmp_path, "j2", 1)
    one.tenancy.enter()
    two.tenancy.enter()
    for worker, other in ((one, "j2"), (two, "j1")):
        assert worker.speeds.get(timeout=WAIT_S) == 0.75
        assert worker.said.get(timeout=WAIT_S).endswith(f"with {other}, at 75% of its speed (pairs.csv)")
    two.tenancy.leave()
    assert one.speeds.get(timeout=WAIT_S) == 1.0
    assert one.said.get(timeout=WAIT_S) == "coadapt: it is alone on emulated GPUs 0, 1 again, at full speed"
    one.tenancy.leave()
    one.tenancy.leave()
    assert list(tmp_path.iterdir()) == []


def test_a_worker_without_room_on_one_of_its_gpus_is_on_none(tmp_path: Path) -> None:
    one, two = Worker(tmp_path, "j1", 1, gib=10), Worker(tmp_path, "j2", 0, 1, gib=8)
    one.tenancy.enter()
    with pytest.raises(NoRoom, match=r"GPU 1 has a total capacity of 16\.00 GiB of which 6\.00 GiB is free"):
        two.tenancy.enter()
    assert [path.name for path in tmp_path.iterdir()] == ["n1-1"]
    one.tenancy.leave()
