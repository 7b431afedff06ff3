"""Step times are means of equal steps, without warm-up and without hiccups."""

import pytest
import torch
from coadapt.executor.training.gradients import step_timer
from coadapt.executor.training.gradients.step_timer import StepTimer


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(step_timer, "time", clock)
    return clock


def step(timer: StepTimer, clock: Clock, compute_s: float, sync_s: float = 0.0, local_bsz: int = 8) -> None:
    timer.start_step()
    clock.now += compute_s
    timer.backward_done()
    clock.now += sync_s
    if sync_s:
        timer.sync_done()
    timer.end_step(1, 2, local_bsz, 0)


def test_means_per_key_without_warm_up(clock: Clock) -> None:
    timer = StepTimer(warmup=2)
    for compute_s in (9.0, 9.0, 1.0, 1.1, 0.9):
        step(timer, clock, compute_s, 0.5)
    for compute_s in (9.0, 9.0, 2.0):
        step(timer, clock, compute_s, local_bsz=16)
    small, large = timer.rows()
    assert (small.nodes, small.replicas, small.local_bsz, small.accumulation) == (1, 2, 8, 0)
    assert (small.step_time_s, small.sync_time_s, small.count) == (pytest.approx(1.5), pytest.approx(0.5), 3)
    assert (large.step_time_s, large.sync_time_s, large.count) == (2.0, 0.0, 1)
    assert timer.rows() == []


def test_a_hiccup_does_not_move_the_mean(clock: Clock) -> None:
    timer = StepTimer(warmup=0)
    for compute_s in [1.0] * 9 + [60.0]:
        step(timer, clock, compute_s)
    (row,) = timer.rows()
    assert (row.step_time_s, row.count) == (pytest.approx(1.0), 9)


def test_a_regroup_starts_a_new_warm_up_and_drops_the_running_step(clock: Clock) -> None:
    timer = StepTimer(warmup=1)
    step(timer, clock, 5.0)
    step(timer, clock, 1.0)
    timer.start_step()
    timer.regrouped()
    timer.end_step(1, 2, 8, 0)
    step(timer, clock, 7.0)
    step(timer, clock, 1.0)
    (row,) = timer.rows()
    assert (row.step_time_s, row.count) == (1.0, 2)


def test_the_last_bucket_counts_where_the_hook_does_not_know_it(clock: Clock) -> None:
    timer = StepTimer(warmup=0)
    timer.start_step()
    for _ in range(3):
        clock.now += 1.0
        timer.sync_started()
    timer.sync_done()
    clock.now += 0.5
    timer.sync_done()
    timer.end_step(1, 2, 8, 0)
    assert timer.rows()[0].sync_time_s == 0.5


def test_waiting_for_loader_workers_is_told_apart_also_where_they_give_batches_in_bursts(clock: Clock) -> None:
    timer = StepTimer(warmup=0)
    for wait_s in (0.0, 0.0, 6.0) * 4:
        timer.start_step()
        timer.input_asked()
        clock.now += wait_s
        timer.input_there()
        clock.now += 1.0
        timer.backward_done()
        timer.end_step(1, 1, 8, 0)
    assert timer.last_step_s() == 7.0
    (row,) = timer.rows()
    assert (row.step_time_s, row.wait_s, row.count) == (pytest.approx(3.0), pytest.approx(2.0), 12)
    alone = row.without_wait()
    assert (alone.step_time_s, alone.wait_s) == (pytest.approx(1.0), 0.0)
    assert alone.without_wait() is alone


def test_an_emulated_sync_time_replaces_the_measured_one(clock: Clock) -> None:
    timer = StepTimer(warmup=0)
    timer.start_step()
    clock.now += 2.0
    timer.end_step(1, 2, 8, 0, sync_time_s=0.25)
    assert timer.rows()[0].sync_time_s == 0.25


def test_calls_outside_of_a_step_do_nothing() -> None:
    timer = StepTimer()
    timer.backward_done()
    timer.sync_started()
    timer.sync_done()
    timer.end_step(1, 1, 1, 0)
    assert timer.rows() == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpus_time_is_measured_in_its_stream() -> None:
    timer, matrix = StepTimer("cuda", warmup=1), torch.randn(4096, 4096, device="cuda")
    for _ in range(6):
        timer.start_step()
        for _ in range(20):
            matrix = torch.nn.functional.normalize(matrix @ matrix)
        timer.backward_done()
        timer.sync_done()
        timer.end_step(1, 1, 8, 0)
    torch.cuda.synchronize()
    (row,) = timer.rows()
    assert row.count >= 3
    assert 0.001 < row.step_time_s < 5
    assert row.sync_time_s < row.step_time_s / 2
