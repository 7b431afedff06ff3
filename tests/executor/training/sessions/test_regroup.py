"""A job keeps training the same model on the same samples while its processes come, go and die."""

import signal
from collections import Counter
from pathlib import Path

import pytest
import torch
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import MeasuredAt, Report
from coadapt.core.training_config import CheckpointConfig, MetricTarget, TrainingConfig
from coadapt.executor.protocol.messages import (
    Abort,
    Broken,
    Crashed,
    Join,
    Joined,
    Left,
    Save,
    Saved,
    SetBatch,
    Stop,
)

from tests.support.elastic_runs import SCRIPT, run_script
from tests.support.warm_group import WarmGroup

SAMPLES = 101
QUICK = TrainingConfig(report_interval_s=0.05, checkpoint=CheckpointConfig(at_epoch_end=False))


def job(tmp_path: Path, *args: str, training: TrainingConfig = QUICK) -> WarmGroup:
    return WarmGroup(SCRIPT, tmp_path, training, args=[f"--out={tmp_path}", *args])


def seen(out: Path) -> Counter[tuple[str, str]]:
    """Count how often each (epoch, sample) was handed to a training step."""
    counts: Counter[tuple[str, str]] = Counter()
    for file in out.glob("seen-*.txt"):
        for line in file.read_text().splitlines():
            epoch, *samples = line.split()
            counts.update((epoch, sample) for sample in samples)
    return counts


def assert_every_sample_once(out: Path, epochs: int) -> None:
    counts = seen(out)
    assert len(counts) == epochs * SAMPLES
    assert set(counts.values()) == {1}


def assert_same_model(out: Path, plain: dict[str, object]) -> None:
    ours = torch.load(out / "final.pt")
    torch.testing.assert_close(ours["model"], plain["model"], rtol=1e-4, atol=1e-5)
    assert ours["lr"] == pytest.approx(plain["lr"])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_growing_moving_and_shrinking_is_training_without_a_break(tmp_path: Path, optimizer: str) -> None:
    args = ["--epochs=4", f"--optimizer={optimizer}", "--schedule=step", "--clip"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with job(tmp_path, *args, "--pause=0.01") as training:
        a, b, c = training.start(3)
        training.join([a])
        a.reached(3)
        training.join([a, b])
        a.reached(8)
        training.join([b, c])  # the leaver was rank 0
        b.reached(13)
        training.join([c, b])  # another rank 0
        c.reached(17)
        training.join([c])
        training.finish()
        assert [event.source for event in b.all(Joined)] == ["peer"] * 3
        assert a.all(Left)[0].saved is None
    assert_every_sample_once(tmp_path, 4)
    assert_same_model(tmp_path, plain)


def test_a_batch_that_no_number_of_replicas_divides_is_split_exactly(tmp_path: Path) -> None:
    args = ["--epochs=3", "--batch-size=17"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with job(tmp_path, *args) as training:
        members = training.start(3)
        training.join(members, BatchPlan(3, 1, 17))  # 101 = 5 x 17 + 16; 17 samples in 6 parts
        training.finish()
    counts = seen(tmp_path)
    assert len(counts) == 3 * SAMPLES
    assert_same_model(tmp_path, plain)


def test_stopped_anywhere_a_job_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    args = ["--epochs=3", "--schedule=epoch"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with job(tmp_path, *args, "--pause=0.01") as training:
        first = training.start(2)
        training.join(first)
        first[0].reached(9)
        left = training.stop()
        assert left[0].saved is not None
        assert left[1].saved is None
        second = training.start(1)
        training.join(second)
        assert second[0].wait(Joined) == Joined(2, left[0].steps, "checkpoint")
        training.finish()
    assert_every_sample_once(tmp_path, 3)
    assert_same_model(tmp_path, plain)


def refuse_writes(folder: Path) -> None:
    """Let a folder read as one that is not there, and let nobody make it, root included."""
    folder.symlink_to("nowhere")


def test_a_checkpoint_that_storage_refuses_at_a_stop_is_no_error_of_the_script(tmp_path: Path) -> None:
    refuse_writes(tmp_path / "checkpoints")
    with job(tmp_path, "--epochs=300", "--pause=0.01") as training:
        first, second = training.start(2)
        training.join([first, second])
        first.reached(3)
        for member in (first, second):
            member.send(Stop())
        crashed, left = first.wait(Crashed), second.wait(Left)
        assert crashed.storage
        assert crashed.summary.startswith(f"checkpoint {tmp_path}/checkpoints/step-")
        assert "could not be written: FileExistsError" in crashed.summary
        assert left.saved is None
        assert (first.exit_code(), second.exit_code()) == (1, 0)
        assert f"coadapt: {crashed.summary}" in first.output()
        assert "Traceback" not in first.output()


def test_a_last_checkpoint_that_storage_refuses_is_no_error_of_the_script(tmp_path: Path) -> None:
    refuse_writes(tmp_path / "checkpoints")
    with job(tmp_path, "--epochs=1") as training:
        (member,) = training.start(1)
        training.join([member])
        assert member.wait(Crashed).storage


def test_storage_that_cannot_be_read_at_a_start_is_no_error_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file in place of the folder")
    with job(tmp_path) as training:
        (member,) = training.start(1)
        training.join([member], wait=False)
        assert member.wait(Crashed).storage


def test_a_killed_replica_costs_no_sample_and_no_step(tmp_path: Path) -> None:
    args = ["--epochs=5"]
    plain = run_script(tmp_path / "plain", *args, "--plain")
    with job(tmp_path, *args, "--pause=0.01") as training:
        a, b, c = training.start(3)
        training.join([a, b, c])
        a.reached(5)
        b.kill()
        assert {a.wait(Broken).generation, c.wait(Broken).generation} == {1}
        training.join([a, c])
        a.reached(12)
        a.kill()  # rank 0
        c.wait(Broken, lambda event: event.generation == 2)
        training.join([c])
        training.finish()
    # A batch that was handed out again after its step was undone was trained on once.
    assert len(seen(tmp_path)) == 5 * SAMPLES
    assert_same_model(tmp_path, plain)


def test_a_hung_replica_is_left_behind_as_soon_as_the_group_is_aborted(tmp_path: Path) -> None:
    with job(tmp_path, "--epochs=3", "--pause=0.01") as training:
        a, b, c = training.start(3)
        training.join([a, b, c])
        a.reached(4)
        b.process.send_signal(signal.SIGSTOP)
        for member in (a, c):
            member.send(Abort(1))
        for member in (a, c):
            member.wait(Broken)
        b.kill()
        training.join([a, c])
        training.finish()
    assert len(seen(tmp_path)) == 3 * SAMPLES


def test_a_group_that_never_completes_gives_way_to_the_next(tmp_path: Path) -> None:
    with job(tmp_path, "--epochs=2") as training:
        a, b = training.start(2)
        b.kill()
        a.send(Join(1, 0, 2, 1, 0, 2, "127.0.0.1", training._store.port))
        a.send(Abort(1))
        assert a.wait(Broken) == Broken(1, 0)
        training.generation = 1
        training.join([a])
        training.finish()


def test_a_new_batch_plan_takes_effect_between_two_steps(tmp_path: Path) -> None:
    with job(tmp_path, "--epochs=40", "--pause=0.002") as training:
        (a,) = training.start(1)
        training.join([a])
        a.reached(10)
        a.send(SetBatch(BatchPlan(8, 3)))
        report = a.wait(Report, lambda event: event.batch_size == 32)
        assert (report.local_bsz, report.accumulation) == (8, 3)
        assert 1.0 <= report.gain <= 2.0
        assert report.lr == pytest.approx(0.05 * report.gain)
        later = a.wait(Report, lambda event: any(row.accumulation == 3 for row in event.rows))
        assert later.progress.progress_samples <= later.progress.samples
        assert later.grad_sqr is not None
        assert later.grad_var is not None
        training.stop(save=False)


def test_saving_on_command_and_reaching_the_target(tmp_path: Path) -> None:
    training = TrainingConfig(
        report_interval_s=0.05,
        target=MetricTarget(metric="epochs_done", at_least=3),
        checkpoint=CheckpointConfig(at_epoch_end=False),
    )
    with job(tmp_path, "--epochs=50", "--pause=0.01", training=training) as group:
        members = group.start(2)
        group.join(members)
        members[0].reached(2)
        members[0].send(Save())
        saved = members[0].wait(Saved)
        assert Path(saved.path).exists()
        finished = group.finish()
        assert all(event.target_reached for event in finished)
        assert finished[0].metrics["epochs_done"] == 3
        (rank_0,) = [member for member in members if member.all(Report)]
        assert (rank_0.all(Report)[-1].measured_at or {})["epochs_done"] == MeasuredAt(3, 3 * 101)
    assert_every_sample_once(tmp_path, 3)


@pytest.mark.parametrize("extra", [["--stream"], ["--workers=1"], ["--drop-last"]])
def test_streams_loader_workers_and_dropped_rests(tmp_path: Path, extra: list[str]) -> None:
    with job(tmp_path, "--epochs=2", "--pause=0.01", *extra) as training:
        a, b = training.start(2)
        training.join([a])
        a.reached(3)
        training.join([a, b])
        training.finish()
    counts = seen(tmp_path)
    assert set(counts.values()) == {1}
    assert len(counts) == 2 * (96 if extra == ["--drop-last"] else SAMPLES)
