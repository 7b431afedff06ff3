"""An emulated GPU knows its tenants: their memory and speeds, and that one is gone, however it went."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.process_start import started_of
from coadapt.executor.emulated_gpu import (
    EmulatedGpu,
    NoRoom,
    Tenant,
    TenantProfile,
    TornState,
    decoded,
    encoded,
)
from coadapt.executor.emulated_pairs import FORETOLD, pair_speed


class Gpu:
    """A GPU of 16 GiB and what it says; a job of kind `a` has speed 0.8 beside another one."""

    def __init__(self, folder: Path) -> None:
        self.now, self.told, self.folder = 100.0, list[str](), folder

    def open(self) -> EmulatedGpu:
        """Return the GPU as another process would open it."""
        return EmulatedGpu("n1-0", 0, 16.0, self._speeds, self.told.append, self.folder, lambda: self.now)

    @staticmethod
    def _speeds(own: TenantProfile, other: TenantProfile) -> tuple[float, str]:
        return (0.8 if own.kind == "a" else 0.5), "a table"

    @property
    def file(self) -> Path:
        return self.folder / "n1-0"


@pytest.fixture
def gpu(tmp_path: Path) -> Gpu:
    return Gpu(tmp_path / "gpus")


def tenant(id: str, kind: str = "a", gib: float | None = None, pid: int | None = None) -> Tenant:
    pid = os.getpid() if pid is None else pid
    return Tenant(f"{id}/w", id, pid, started_of(pid) or 0, TenantProfile(kind, memory_gib=gib))


def other_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)


def test_alone_a_job_is_at_full_speed_and_beside_another_both_are_slower_from_then_on(gpu: Gpu) -> None:
    one, two = gpu.open(), gpu.open()
    first, second = tenant("j1"), tenant("j2", "b")
    assert one.enter(first).speed == 1.0
    gpu.now = 107.0
    assert two.enter(second).speed == 0.5
    own, others = one.look(first)
    assert (own.speed, own.since_s, own.source) == (0.8, 107.0, "a table")
    assert [other.job for other in others] == ["j2"]
    gpu.now = 110.0
    two.leave(second.id)
    own, others = one.look(first)
    assert (own.speed, own.since_s, own.source, list(others)) == (1.0, 110.0, "", [])
    assert not gpu.told


def test_a_tenant_that_is_killed_leaves_the_other_at_full_speed(gpu: Gpu) -> None:
    gone = other_process()
    one, survivor = gpu.open(), tenant("j1")
    one.enter(survivor)
    gpu.open().enter(tenant("j2", pid=gone.pid))
    assert one.look(survivor)[0].speed == 0.8
    gone.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie, which counts as gone
    assert one.look(survivor)[0].speed == 1.0
    gone.communicate()


def test_the_last_tenant_takes_the_file_along_and_nothing_is_left(gpu: Gpu) -> None:
    one, first = gpu.open(), tenant("j1")
    one.enter(first)
    assert gpu.file.exists()
    assert gpu.folder.stat().st_mode & 0o777 == 0o700
    one.leave(first.id)
    assert not gpu.file.exists()


def test_memory_that_the_gpu_has_not_left_is_refused_in_the_words_of_cuda(gpu: Gpu) -> None:
    first = tenant("j1", gib=10)
    gpu.open().enter(first)
    with pytest.raises(NoRoom) as refused:
        gpu.open().enter(tenant("j2", gib=9))
    assert str(refused.value) == (
        "CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 16.00 GiB of which "
        f"6.00 GiB is free. Process {os.getpid()} (j1) has 10.00 GiB memory in use."
    )
    assert gpu.open().look(first)[0].speed == 1.0
    assert gpu.open().enter(tenant("j3", gib=6)).speed == 0.8


def test_a_torn_state_is_made_anew_and_whoever_was_there_enters_again(gpu: Gpu) -> None:
    one, first = gpu.open(), tenant("j1")
    one.enter(first)
    gpu.file.write_bytes(gpu.file.read_bytes()[:-5])
    second = tenant("j2", "b")
    assert gpu.open().enter(second).speed == 1.0
    assert gpu.told == ["the shared state of emulated GPU 0 was torn; it is made anew"]
    assert one.look(first)[0].speed == 0.8
    assert gpu.open().look(second)[0].speed == 0.5


def test_a_state_that_a_process_has_left_is_made_anew(gpu: Gpu) -> None:
    gone = other_process()
    gpu.open().enter(tenant("j1", gib=16, pid=gone.pid))
    gone.kill()
    gone.communicate()
    assert gpu.open().enter(tenant("j2", gib=16)).speed == 1.0
    assert gpu.told == [
        "the shared state of emulated GPU 0 was left by a process of j1 that is gone; it is made anew"
    ]


def test_what_processes_have_left_of_other_gpus_is_removed(gpu: Gpu) -> None:
    gone = other_process()
    left = EmulatedGpu("n0-3", 3, 16.0, pair_speed, gpu.told.append, gpu.folder)
    left.enter(tenant("j1", pid=gone.pid))
    lives = EmulatedGpu("n0-4", 4, 16.0, pair_speed, gpu.told.append, gpu.folder)
    lives.enter(tenant("j2"))
    gone.kill()
    gone.communicate()
    gpu.open().enter(tenant("j3"))
    assert sorted(path.name for path in gpu.folder.iterdir()) == ["n0-4", "n1-0"]


def test_a_state_comes_back_as_it_was_written() -> None:
    one = Tenant(
        "j/w", "j", 1, 2, TenantProfile("bert", 0.4, None, 3.5, {"a": (0.9, 0.7)}, "t.csv"), 0.9, 5.0, "t"
    )
    assert decoded(encoded([one])) == [one]
    data = encoded([one])
    head, text = data.split(b"\n", 1)
    for torn in (data[:-1], b"", head, b"00000000\n" + text, text):
        with pytest.raises(TornState, match="was torn"):
            decoded(torn)


def test_pair_speeds_are_those_of_the_table_whoever_has_it_and_else_foretold_by_the_use_of_both() -> None:
    measured = TenantProfile("a", beside={"b": (0.9, 0.6), "a": (1.3, 1.3)}, source="pairs.csv")
    assert pair_speed(measured, TenantProfile("b")) == (0.9, "pairs.csv")
    assert pair_speed(TenantProfile("b"), measured) == (0.6, "pairs.csv")
    assert pair_speed(measured, measured) == (1.0, "pairs.csv")  # nobody is faster than alone
    light, heavy = TenantProfile("c", gpu_util=0.2), TenantProfile("d", gpu_util=0.95)
    assert pair_speed(light, light)[1] == FORETOLD
    assert pair_speed(heavy, heavy)[0] < pair_speed(light, light)[0] <= 1.0
    assert pair_speed(TenantProfile("c"), TenantProfile("d"))[0] < 1.0  # no pair is free for want of knowledge


def test_a_worker_that_is_about_to_end_slows_the_next_one_of_its_job_by_nothing(gpu: Gpu) -> None:
    last = tenant("j1", gib=10)
    gpu.open().enter(last)
    found = gpu.open().enter(replace(last, id="j1/w2"))
    assert (found.speed, found.source) == (1.0, "")
