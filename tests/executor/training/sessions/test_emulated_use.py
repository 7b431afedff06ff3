"""A paced process tells its worker how long its emulated GPU was busy; on a real GPU it tells nothing."""

from __future__ import annotations

import json

import pytest
from coadapt.executor.protocol.messages import GPU_TYPE, PACE_JSON, Paced
from coadapt.executor.training.sessions import emulated_use
from coadapt.executor.training.sessions.emulated_use import EmulatedUse, pace_of_process

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
