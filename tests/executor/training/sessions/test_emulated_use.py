"""A paced process tells its worker how long its emulated GPU was busy; on a real GPU it tells nothing."""

from __future__ import annotations

import json
import threading
import time

import pytest
import torch
from coadapt.executor.protocol.messages import GPU_TYPE, NO_ROOM, PACE_JSON, Beside, Paced
from coadapt.executor.training.sessions import emulated_use
from coadapt.executor.training.sessions.emulated_use import EmulatedUse, GpuClock, pace_of_process

from tests.support.channels import Executor


def test_a_real_gpu_is_not_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PACE_JSON, raising=False)
    assert pace_of_process(Executor().channel) is None


def test_each_paced_step_keeps_the_gpu_busy_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated_use, "TOLD_S", 0.0)
    monkeypatch.setenv(PACE_JSON, json.dumps({"profile": "cifar10", "time_scale": 100.0}))
    monkeypatch.setenv(GPU_TYPE, "t4")
    executor = Executor()
    pace = pace_of_process(executor.channel)
    assert pace is not None
    for local_bsz in (32, 64):
        pace.wait(pace.clock(), 1, 1, local_bsz, 0)
    small_s, large_s = (pace.step_time_s(1, 1, local_bsz, 0) for local_bsz in (32, 64))
    assert executor.heard(Paced) == [Paced(small_s, small_s), Paced(small_s + large_s, large_s)]


def test_short_steps_are_told_once_a_second_and_none_of_them_is_lost() -> None:
    executor, now = Executor(), [0.0]
    use = EmulatedUse(executor.channel, lambda: now[0])
    for step in range(1, 51):
        now[0] = step / 20
        use.on_step(step / 100, 0.01)
    assert executor.heard(Paced) == [Paced(0.2, 0.01), Paced(0.4, 0.01)]


def test_beside_another_job_each_step_takes_longer_and_after_it_the_step_under_way_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PACE_JSON, json.dumps({"profile": "cifar10", "time_scale": 1.0}))
    monkeypatch.setenv(GPU_TYPE, "t4")
    executor = Executor()
    executor.send(Beside(0.5, time.monotonic()))  # before the script asks for its pace
    pace = pace_of_process(executor.channel)
    assert pace is not None
    step_s, began_s = pace.step_time_s(1, 1, 32, 0), time.monotonic()
    pace.wait(pace.clock(), 1, 1, 32, 0)
    assert time.monotonic() - began_s >= 2 * step_s
    executor.send(Beside(0.001, time.monotonic()))
    began = pace.clock()
    worked = threading.Thread(target=pace.wait, args=(began, 1, 1, 32, 0))
    worked.start()
    executor.send(
        Beside(1.0, time.monotonic())
    )  # the partner is gone, else the step took a thousand times as long
    worked.join(30)
    assert not worked.is_alive()


def test_a_clock_counts_by_the_speed_from_the_moment_on_that_is_told() -> None:
    now = [10.0]
    clock = GpuClock(lambda: now[0])
    began_s = clock.now()
    now[0] = 16.0
    clock.beside(Beside(0.5, 12.0))
    assert clock.now() - began_s == 2.0 + 4.0 * 0.5
    now[0] = 20.0
    clock.beside(Beside(1.0, 20.0))
    now[0] = 23.0
    assert clock.now() - began_s == 2.0 + 8.0 * 0.5 + 3.0


def test_a_gpu_without_room_is_an_out_of_memory_error_as_scripts_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_ROOM, "CUDA out of memory. Tried to allocate 9.00 GiB.")
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"^CUDA out of memory"):
        pace_of_process(Executor().channel)
