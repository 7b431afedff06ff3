"""The same training on a GPU: groups over NCCL, and state that comes back where it was.

Two members of a group take a GPU each, or share the only one. NCCL refuses that of members on one host, so each
says that it is on a host of its own.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Report
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.protocol.messages import Broken, Join, Joined
from coadapt.executor.rehearsal.group import Member, TrainingGroup, gpu_environment
from coadapt.executor.training.collective.group import Group, GroupBroken, leave_group
from coadapt.executor.training.gradients.gradient_noise import ConsecutiveGradients, Preconditioner
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.executor.training.variables.rng import capture_rng, restore_rng
from torch import nn

from tests.support.elastic_runs import SCRIPT, run_script

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

QUICK = TrainingConfig(report_interval_s=0.05, checkpoint=CheckpointConfig(at_epoch_end=False))


def job(tmp_path: Path, *args: str) -> TrainingGroup:
    return TrainingGroup(SCRIPT, tmp_path, QUICK, args=[f"--out={tmp_path}", "--gpu", *args])


def start(training: TrainingGroup, count: int) -> list[Member]:
    return [training.start(1, gpu_environment(len(training.members)), ready=False)[0] for _ in range(count)]


def assert_same_model(out: Path, plain: dict[str, Any]) -> None:
    ours = torch.load(out / "final.pt", map_location="cpu")
    torch.testing.assert_close(ours["model"], plain["model"], rtol=1e-4, atol=1e-5)
    assert ours["lr"] == pytest.approx(plain["lr"])


def test_one_replica_of_several_passes_gives_the_plain_scripts_model(tmp_path: Path) -> None:
    args = ["--epochs=3", "--amp", "--clip", "--schedule=step", "--optimizer=adam", "--infinite-at=5"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with job(tmp_path, *args) as training:
        training.join(start(training, 1), BatchPlan(6, 2, 16))
        (finished,) = training.finish()
    assert finished.steps == 3 * 7 - 1  # the one whose gradient overflowed was skipped
    assert_same_model(tmp_path, plain)


def test_noise_and_step_times_are_reported(tmp_path: Path) -> None:
    with job(tmp_path, "--epochs=12") as training:
        (member,) = start(training, 1)
        training.join([member])
        training.finish()
        report = member.all(Report)[-1]
    assert report.grad_sqr is not None
    assert report.grad_var is not None
    rows = [row for report in member.all(Report) for row in report.rows]
    assert rows
    assert all(0 < row.step_time_s < 1 and row.sync_time_s < row.step_time_s for row in rows)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_growing_and_shrinking_is_training_without_a_break(tmp_path: Path, optimizer: str) -> None:
    args = ["--epochs=4", f"--optimizer={optimizer}", "--schedule=step", "--clip"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with job(tmp_path, *args, "--pause=0.01") as training:
        a, b = start(training, 2)
        training.join([a])
        a.reached(3)
        training.join([a, b])
        a.reached(10)
        training.join([b])  # the leaver was rank 0
        training.finish()
        assert [event.source for event in b.all(Joined)] == ["peer"] * 2
    assert_same_model(tmp_path, plain)


def test_a_killed_replica_costs_no_step(tmp_path: Path) -> None:
    args = ["--epochs=5"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with job(tmp_path, *args, "--pause=0.01") as training:
        a, b = start(training, 2)
        training.join([a, b])
        a.reached(5)
        b.kill()
        training.abort()  # NCCL would wait for the dead one
        assert a.wait(Broken).generation == 1
        training.join([a])
        training.finish()
    assert_same_model(tmp_path, plain)


def test_stopped_anywhere_a_job_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    args = ["--epochs=3", "--optimizer=adam", "--amp"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with job(tmp_path, *args, "--pause=0.01") as training:
        (first,) = start(training, 1)
        training.join([first])
        first.reached(9)
        training.stop()
        (second,) = start(training, 1)
        training.join([second])
        assert second.wait(Joined).source == "checkpoint"
        training.finish()
    assert_same_model(tmp_path, plain)


def test_an_aborted_group_fails_and_the_next_one_forms(tmp_path: Path) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    device = torch.device("cuda", 0)
    try:
        for generation in (1, 2):
            group = Group.form(Join(generation, 0, 1, 1, 0, 1, "127.0.0.1", store.port), device, store)
            total = torch.ones(1 << 20, device=device)
            with group.collective():
                group.wait(dist.all_reduce(total, async_op=True), total)
            assert float(total.sum()) == 1 << 20
            group.world_size = 2  # a group of one has nobody to abort
            group.fail()
            with pytest.raises(GroupBroken), group.collective():
                dist.all_reduce(total)
    finally:
        leave_group()


def test_torchrun_gives_the_plain_scripts_model(tmp_path: Path) -> None:
    run_script(tmp_path / "ours", "--optimizer=adam", "--gpu", processes=1)
    assert_same_model(tmp_path / "ours", run_script(tmp_path / "plain", "--optimizer=adam", "--plain"))


def test_what_was_saved_from_gpu_and_cpu_comes_back_to_each(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path))
    path = store.save({"moment": torch.ones(3, device="cuda"), "step": torch.tensor(5.0)}, 1)
    assert {name: value.device.type for name, value in store.load(path, torch.device("cuda", 0)).items()} == {
        "moment": "cuda",
        "step": "cpu",
    }
    assert {value.device.type for value in store.load(path).values()} == {"cpu"}


@pytest.mark.parametrize("kind", [{}, {"fused": True}, {"capturable": True}], ids=["", "fused", "capturable"])
def test_dividing_by_second_moments_never_waits_for_the_gpu(kind: dict[str, bool]) -> None:
    parameters = [nn.Parameter(torch.randn(9, device="cuda")) for _ in range(2)]
    optimizer = torch.optim.AdamW(parameters, **kind)
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    for _ in range(6):
        optimizer.step()
    preconditioner = Preconditioner(optimizer)
    assert preconditioner.ready
    flat = torch.cat([parameter.grad for parameter in parameters])
    torch.cuda.set_sync_debug_mode("error")
    try:
        scale = preconditioner.flat_scale(flat, parameters, flat.split(9))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    moments = torch.cat([optimizer.state[parameter]["exp_avg_sq"] for parameter in parameters])
    torch.testing.assert_close(scale, 1 / ((moments / (1 - 0.999**6)).sqrt() + 1e-8))


def test_the_noise_of_a_replica_on_several_devices_is_that_of_all_its_buckets() -> None:
    gradients = ConsecutiveGradients()
    for step in (1.0, 3.0):
        gradients.push(0, torch.full((4,), step, device="cuda"), 8)
        gradients.push(1, torch.full((2,), step), 8)
        squares = gradients.take(8)
    assert squares is not None
    assert squares.tolist() == [6 * 2.0**2, 6 * 4.0**2]


def test_random_numbers_of_the_gpu_come_back(tmp_path: Path) -> None:
    torch.rand(1, device="cuda")
    store = CheckpointStore(str(tmp_path))
    state = store.load(store.save({"rng": capture_rng()}, 1), torch.device("cuda"))
    first = torch.rand(8, device="cuda")
    restore_rng(state["rng"])
    torch.testing.assert_close(torch.rand(8, device="cuda"), first, rtol=0, atol=0)
