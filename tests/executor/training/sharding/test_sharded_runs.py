"""A model that is sharded over a replica's processes trains as if it were whole, while replicas come and go."""

import signal
from collections import Counter
from pathlib import Path

import pytest
import torch
from coadapt.core.reports import Report
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.protocol.messages import Abort, Broken, Crashed, Joined
from coadapt.executor.rehearsal.group import Member

from tests.support.sharded_runs import SCRIPT, ShardedGroup, run_plain, run_torchrun

SAMPLES = 96
QUICK = TrainingConfig(report_interval_s=0.05, checkpoint=CheckpointConfig(at_epoch_end=False))


def job(tmp_path: Path, *args: str, processes: int = 2) -> ShardedGroup:
    return ShardedGroup(SCRIPT, tmp_path, QUICK, args=[f"--out={tmp_path}", *args], processes=processes)


def noise_of(member: Member) -> tuple[float, float]:
    """Return the squared norm of the gradient and its variance, as they were reported last."""
    report = member.all(Report)[-1]
    assert report.grad_sqr is not None
    assert report.grad_var is not None
    return report.grad_sqr, report.grad_var


def assert_every_sample_once(out: Path, epochs: int) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for file in out.glob("seen-*.txt"):
        for line in file.read_text().splitlines():
            epoch, *samples = line.split()
            counts.update((epoch, sample) for sample in samples)
    assert len(counts) == epochs * SAMPLES
    assert set(counts.values()) == {1}


def assert_same_model(out: Path, plain: dict[str, torch.Tensor]) -> None:
    torch.testing.assert_close(torch.load(out / "final.pt"), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adam", marks=pytest.mark.slow)])
def test_replicas_of_two_processes_come_and_go_as_in_training_without_a_break(
    tmp_path: Path, optimizer: str
) -> None:
    args = ["--epochs=4", f"--optimizer={optimizer}", "--clip"]
    plain = run_plain(tmp_path / "plain", *args)
    with job(tmp_path, *args, "--pause=0.01") as training:
        a, b, c = (training.start_replica() for _ in range(3))
        training.join_replicas([a])
        a[0].reached(3)
        training.join_replicas([a, b])
        a[0].reached(8)
        training.join_replicas([b, c])  # the leaver was replica 0
        b[0].reached(14)
        training.join_replicas([c])
        training.finish()
        assert [event.source for event in c[1].all(Joined)] == ["peer"] * 2
    assert_every_sample_once(tmp_path, 4)
    assert_same_model(tmp_path, plain)


def test_a_replica_that_loses_a_process_is_left_behind_and_costs_no_sample(tmp_path: Path) -> None:
    args = ["--epochs=5"]
    plain = run_plain(tmp_path / "plain", *args)
    with job(tmp_path, *args, "--pause=0.01") as training:
        a, b, c = (training.start_replica() for _ in range(3))
        training.join_replicas([a, b, c])
        a[0].reached(5)
        b[1].kill()
        for member in (*a, *c):
            assert member.wait(Broken).generation == 1
        b[0].kill()
        training.join_replicas([a, c])
        a[0].reached(14)
        a[0].kill()  # rank 0
        for member in c:
            member.wait(Broken, lambda event: event.generation == 2)
        a[1].kill()
        training.join_replicas([c])
        training.finish()
    assert_same_model(tmp_path, plain)


def test_a_replica_with_a_hung_process_is_left_behind_as_soon_as_the_group_is_aborted(tmp_path: Path) -> None:
    plain = run_plain(tmp_path / "plain")
    with job(tmp_path, "--pause=0.01") as training:
        a, b = (training.start_replica() for _ in range(2))
        training.join_replicas([a, b])
        a[0].reached(4)
        b[1].process.send_signal(signal.SIGSTOP)
        for member in a:
            member.send(Abort(1))
        for member in a:
            member.wait(Broken)
        for member in b:
            member.kill()
        training.join_replicas([a])
        training.finish()
    assert_same_model(tmp_path, plain)


@pytest.mark.slow
def test_a_checkpoint_fits_replicas_of_other_numbers_of_processes_and_jobs_without_shards(tmp_path: Path) -> None:
    args = ["--epochs=4", "--optimizer=adam"]
    plain = run_plain(tmp_path / "plain", *args)
    with job(tmp_path, *args, "--pause=0.01") as training:
        first = [training.start_replica(2), training.start_replica(2)]
        training.join_replicas(first)
        first[0][0].reached(7)
        left = training.stop()
        assert [event.saved is not None for event in left] == [True, False, False, False]
        second = training.start_replica(3)
        training.join_replicas([second])
        assert second[2].wait(Joined).source == "checkpoint"
        second[0].reached(14)
        training.stop()
        training.args.append("--whole")
        whole = training.start(2)
        training.join(whole)
        assert [member.wait(Joined).source for member in whole] == ["checkpoint"] * 2
        whole[0].reached(20)
        training.stop()
        training.args.remove("--whole")
        last = [training.start_replica(1), training.start_replica(1)]
        training.join_replicas(last)
        last[0][0].reached(24)
        training.stop()
        again = [training.start_replica(1), training.start_replica(1)]
        training.join_replicas(again)
        training.finish()
    assert_every_sample_once(tmp_path, 4)
    assert_same_model(tmp_path, plain)


@pytest.mark.parametrize(
    "extra", [["--evaluate", "--schedule"], pytest.param(["--amp", "--unsynced"], marks=pytest.mark.slow)]
)
def test_what_scripts_do_beside_a_step_works_with_shards(tmp_path: Path, extra: list[str]) -> None:
    args = ["--epochs=4", "--accumulate=2", "--clip", *extra]
    plain = run_plain(tmp_path / "plain", *args)
    with job(tmp_path, *args, "--pause=0.01", "--default-mesh") as training:
        a, b = (training.start_replica() for _ in range(2))
        training.join_replicas([a, b])
        a[0].reached(5)
        training.join_replicas([b])
        training.finish()
    assert_every_sample_once(tmp_path, 4)
    assert_same_model(tmp_path, plain)


@pytest.mark.parametrize(
    ("optimizer", "replicas", "processes", "tensor_parallel"),
    [
        ("sgd", 1, 2, 1),
        pytest.param("sgd", 2, 2, 1, marks=pytest.mark.slow),
        pytest.param("adam", 2, 2, 1, marks=pytest.mark.slow),
        ("adam", 2, 2, 2),
        pytest.param("sgd", 1, 4, 2, marks=pytest.mark.slow),
    ],
)
def test_the_noise_of_sharded_gradients_is_that_of_whole_ones(
    tmp_path: Path, optimizer: str, replicas: int, processes: int, tensor_parallel: int
) -> None:
    args = ["--epochs=4", f"--optimizer={optimizer}", "--lr=0.01"]
    (tmp_path / "whole").mkdir()
    with job(tmp_path / "whole", *args, "--whole") as whole:
        members = whole.start(replicas)
        whole.join(members)
        whole.finish()
        expected = noise_of(members[0])
    assert expected[0] > 0
    with job(tmp_path, *args, f"--tensor-parallel={tensor_parallel}", processes=processes) as training:
        several = [training.start_replica() for _ in range(replicas)]
        training.join_replicas(several)
        training.finish()
        assert noise_of(several[0][0]) == pytest.approx(expected, rel=0.02)


def test_processes_of_tensor_parallelism_compute_the_same_samples(tmp_path: Path) -> None:
    args = ["--epochs=3", "--optimizer=adam"]
    plain = run_plain(tmp_path / "plain", *args)
    with job(tmp_path, *args, "--tensor-parallel=2", "--pause=0.01", processes=4) as training:
        a, b = (training.start_replica() for _ in range(2))
        training.join_replicas([a])
        a[0].reached(5)
        training.join_replicas([a, b])
        a[0].reached(12)
        training.join_replicas([b])
        training.finish()
    assert_same_model(tmp_path, plain)


def test_a_sharded_model_trains_under_torchrun_and_by_itself_as_it_does_alone(tmp_path: Path) -> None:
    plain = run_plain(tmp_path / "plain")
    for processes in (0, 3):
        out = tmp_path / str(processes)
        out.mkdir()
        run_torchrun(out, processes)
        assert_every_sample_once(out, 3)
        assert_same_model(out, plain)


@pytest.mark.parametrize(
    ("shards", "args", "sentence"),
    [
        (
            0,
            [],
            "prepare: embed.weight is sharded (fully_shard), but the job's replicas are one process each; set "
            "resources.gpus_per_replica to the GPUs of a replica, and resources.processes_per_replica: gpu",
        ),
        (
            2,
            ["--whole"],
            "prepare: the model is not sharded, but the job's replicas are 2 processes; call fully_shard(model) "
            "before prepare, or leave out resources.processes_per_replica",
        ),
    ],
)
def test_a_model_that_does_not_fit_its_job_file_is_one_sentence(
    tmp_path: Path, shards: int, args: list[str], sentence: str
) -> None:
    with job(tmp_path, *args) as training:
        members = training.start_replica(shards, ready=False) if shards else training.start(ready=False)
        assert members[0].wait(Crashed).summary == f"ValueError: {sentence}"


def test_ranks_that_are_no_whole_replicas_are_one_sentence(tmp_path: Path) -> None:
    with job(tmp_path) as training:
        (a, b), (c, _) = training.start_replica(), training.start_replica()
        training.join([a, b, c], wait=False)
        assert "cannot be shard" in a.wait(Crashed).summary
