"""An executor on a real (local) Ray cluster with real training processes: what a job lives through."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.core.trials import Trial
from coadapt.executor.executor_job import ExecutorJob
from coadapt.executor.protocol.job_events import (
    Failing,
    JobFailed,
    JobFinished,
    ProfileFinished,
    Released,
    Reported,
    Running,
    Used,
    WorkerLost,
)

from tests.support.emulated_cluster import NAMESPACE, EmulatedCluster
from tests.support.executor_service import NAME, ToldJob

SCRIPT = Path(__file__).parents[1] / "support" / "elastic_script.py"
SHARDED = SCRIPT.with_name("sharded_script.py")
SAMPLES = 96
pytestmark = pytest.mark.live


class Job(ToldJob):
    """One executor and the folder its script writes to."""

    def __init__(self, service: Any, folder: Path, *args: str, **options: Any) -> None:
        from coadapt.executor.adaptive_executor import AdaptiveExecutor

        super().__init__(service, AdaptiveExecutor, folder)
        training = options.pop("training", {})
        job = ExecutorJob(
            id=self.id,
            script=str(options.pop("script", SCRIPT)),
            args=("--out", str(folder), "--samples", str(SAMPLES), *args),
            training=TrainingConfig(
                checkpoint=CheckpointConfig(every_minutes=0.02), report_interval_s=1.0, **training
            ),
            checkpoint_url=str(folder / "checkpoints"),
            log_dir=str(folder / "logs"),
            gpus_per_replica=options.pop("gpus_per_replica", {"*": 1}),
            service_name=NAME,
            service_namespace=NAMESPACE,
            **options,
        )
        self.begin(job)

    def pids(self) -> dict[Any, int]:
        return {worker["slot"]: worker["pid"] for worker in self.status().workers.values()}

    def samples(self) -> Counter:
        """Count how often a step with each (epoch, sample) was begun, over all processes."""
        return Counter(
            (int(line.split()[0]), int(index))
            for path in self.folder.glob("seen-*.txt")
            for line in path.read_text().splitlines()
            for index in line.split()[1:]
        )


@pytest.fixture
def start(service: Any, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def begin(*args: str, **options: Any) -> Job:
        jobs.append(Job(service, tmp_path, *args, **options))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.end()


def test_a_job_grows_shrinks_and_moves_and_sees_every_sample_once(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start("--epochs", "10000", "--pause", "0.05")
    a, b, t = (emulated_cluster.slot(*name) for name in (("a100", 0), ("a100", 1), ("t4", 0)))
    job.assign(a)
    first = job.wait(Running)
    assert (first.slots, first.warm, first.pause_s) == ((a,), False, None)
    job.assign(a, b)
    grown = job.wait(Running, lambda event: event.sequence == 2)
    assert set(grown.slots) == {a, b}
    assert grown.warm
    job.wait(Reported, lambda event: event.report.replicas == 2)
    job.assign(b)
    shrunk = job.wait(Running, lambda event: event.sequence == 3)
    assert shrunk.slots == (b,)
    assert shrunk.warm
    job.wait(Released, lambda event: event.slots == (a,))
    job.assign(t)
    moved = job.wait(Running, lambda event: event.sequence == 4)
    assert moved.slots == (t,)
    assert not moved.warm
    job.wait(Released, lambda event: event.slots == (b,))
    job.wait(Reported, lambda event: event.report.gpu_type == "t4" and bool(event.report.rows))
    job.assign()
    job.wait(Released, lambda event: event.slots == (t,))
    counts = job.samples()
    last = max(epoch for epoch, _ in counts)
    assert sum(epoch < last for epoch, _ in counts) == last * SAMPLES, "no sample is left out"
    repeated = sorted(key for key, count in counts.items() if count > 1)
    assert not repeated, (repeated, [lost.reason for lost in job.events(WorkerLost)], job.log()[-2000:])
    measurements = job.events(Reported)[-1].measurements
    assert set(measurements.profiles) == {"a100", "t4"}
    assert measurements.info is not None
    assert measurements.info.initial_batch_size == 16


def test_other_cpus_and_memory_reach_a_job_while_it_trains_and_nothing_restarts(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start(script=SCRIPT.with_name("provided_script.py"))
    slot = replace(emulated_cluster.slot("a100", 0), cpus=1.0, memory_gib=4.0)
    workers = job.folder / "workers.txt"

    def counts() -> set[str]:
        return set(workers.read_text().split()) if workers.exists() else set()

    job.assign(slot)
    running = job.wait(Running)
    job.wait(Reported, lambda event: counts() == {"1"})
    pid = job.pids()[slot]
    for sequence, cpus in ((2, 3.0), (3, 2.0)):
        job.assign(replace(slot, cpus=cpus, memory_gib=4.0 + cpus))
        done = job.wait(Running, lambda event, number=sequence: event.sequence == number)
        assert (done.generation, done.pause_s) == (running.generation, None)
        job.wait(Reported, lambda event, number=f"{cpus:g}": number in counts())
    assert job.pids()[slot] == pid
    job.assign()
    job.wait(Released, lambda event: event.slots == (slot,))
    seen = job.samples()
    last = max(epoch for epoch, _ in seen)
    assert sum(epoch < last for epoch, _ in seen) == last * SAMPLES
    assert set(seen.values()) == {1}


def test_a_killed_training_process_costs_no_sample_and_its_place_is_taken_again(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start("--epochs", "10000", "--pause", "0.05")
    a, t = emulated_cluster.slot("a100"), emulated_cluster.slot("t4")
    job.assign(a, t)
    job.wait(Running, lambda event: len(event.slots) == 2)
    victim = job.pids()[t]
    os.kill(victim, signal.SIGKILL)
    recovered = job.wait(Running, lambda event: event.recovered)
    assert recovered.slots == (a,)
    assert recovered.warm
    assert "SIGKILL" in job.wait(WorkerLost).reason
    job.wait(Running, lambda event: len(event.slots) == 2, count=2)
    job.assign()
    job.wait(Released, count=2)
    counts = job.samples()
    last = max(epoch for epoch, _ in counts)
    assert sum(epoch < last for epoch, _ in counts) == last * SAMPLES, "no sample is left out"
    assert job.status().failures == 0
    assert not psutil.pid_exists(victim)


def test_replicas_of_two_processes_grow_lose_one_and_fit_another_number(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start(
        *("--epochs", "10000", "--pause", "0.05"),
        script=SHARDED,
        sharded=True,
        gpus_per_replica={"a100": 2, "t4": 3},
    )
    a, b = (replace(emulated_cluster.slot("a100"), devices=devices) for devices in ((0, 1), (2, 3)))
    t = replace(emulated_cluster.slot("t4"), devices=(0, 1, 2))
    job.assign(a)
    assert job.wait(Running).slots == (a,)
    job.assign(a, b)
    grown = job.wait(Running, lambda event: event.sequence == 2)
    assert grown.warm
    report = job.wait(Reported, lambda event: event.report.replicas == 2).report
    assert report.local_bsz == 6  # of a replica: half of the batch
    os.kill(job.pids()[b], signal.SIGKILL)
    recovered = job.wait(Running, lambda event: event.recovered)
    assert recovered.slots == (a,)
    assert recovered.warm
    assert "SIGKILL" in job.wait(WorkerLost).reason
    job.assign(t)
    moved = job.wait(Running, lambda event: event.sequence == 3)
    assert (moved.slots, moved.warm) == ((t,), False)
    job.assign()
    job.wait(Released, lambda event: event.slots == (t,))
    counts = job.samples()
    last = max(epoch for epoch, _ in counts)
    assert sum(epoch < last for epoch, _ in counts) == last * SAMPLES, "no sample is left out"
    assert job.status().failures == 0


def test_a_script_that_fails_is_tried_again_and_ends_with_its_traceback(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start("--epochs", "5", "--crash-at", "3", max_failures=1)
    job.assign(emulated_cluster.slot("a100"))
    job.wait(Failing)
    failed = job.wait(JobFailed)
    assert failed.tries == 2
    assert failed.summary == "ArithmeticError: the script's own mistake"
    assert "elastic_script.py" in failed.traceback
    job.wait(Released)
    assert "the script's own mistake" in job.log()


def test_a_killed_executor_comes_back_empty_and_goes_on_from_the_checkpoint(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    import ray

    job = start("--epochs", "25", "--pause", "0.05")
    a = emulated_cluster.slot("a100")
    job.assign(a)
    job.wait(Running)
    training = psutil.Process(job.pids()[a])
    job.wait(Reported, lambda event: event.report.progress.epoch >= 2)
    ray.kill(job.actor, no_restart=False)
    job.wait(Released, lambda event: event.everything)
    training.wait(timeout=20)
    job.assign(a)
    job.wait(Running, count=2)
    assert job.wait(JobFinished).metrics["epochs_done"] == 25
    counts = job.samples()
    assert len(counts) == 25 * SAMPLES
    assert counts[0, 0] == 1, "the first epoch is not trained again"


def test_a_stopped_job_releases_its_slots_and_continues_where_it_was(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start("--epochs", "30", "--pause", "0.05")
    a, t = emulated_cluster.slot("a100"), emulated_cluster.slot("t4")
    job.assign(a)
    job.wait(Running)
    job.assign()
    job.wait(Released)
    assert job.status().slots == ()
    job.assign(t)
    job.wait(JobFinished)
    assert set(job.samples().values()) == {1}


def test_a_profile_run_measures_and_gives_its_slot_back(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start(training={"max_batch_size": 64})
    t = emulated_cluster.slot("t4")
    job.actor.profile.remote(t, 1)
    finished = job.wait(ProfileFinished)
    assert finished.ok, job.log()
    job.wait(Released, lambda event: event.slots == (t,))
    measurements = finished.measurements
    assert len(measurements.profiles["t4"]) >= 2
    assert measurements.job_model(TrainingConfig(max_batch_size=64), {"*": 1}) is not None


@pytest.mark.parametrize("ends", [(), ("--overcommits",)], ids=["with an error", "killed"])
def test_profiling_survives_running_out_of_memory_and_finds_what_fits(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster, ends: tuple[str, ...]
) -> None:
    training = {"min_local_batch_size": 8, "max_local_batch_size": 64, "max_batch_size": 256}
    job = start("--fits", "30", *ends, training=training)
    t = emulated_cluster.slot("t4")
    job.actor.profile.remote(t, 1)
    assert job.wait(ProfileFinished).ok, job.log()
    job.wait(Released, lambda event: event.slots == (t,))
    measurements = job.events(ProfileFinished)[-1].measurements
    found, too_many = measurements.largest_local_bsz["t4"], measurements.out_of_memory["t4"]
    assert 24 <= found <= 30 < too_many <= 37, "the sizes next to each other are a quarter apart"
    assert measurements.max_local_bsz("t4", TrainingConfig(**training)) == found
    assert "Traceback" not in job.log()
    assert len(job.events(ProfileFinished)) == 1


def test_training_that_runs_out_of_memory_goes_on_with_a_smaller_batch(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    training = {"min_local_batch_size": 8, "max_local_batch_size": 64, "max_batch_size": 64}
    job = start("--batch-size", "64", "--fits-in-training", "60", training=training)
    t = emulated_cluster.slot("t4")
    job.actor.profile.remote(t, 1)
    job.wait(Released, lambda event: event.slots == (t,))
    job.assign(t)
    job.wait(JobFinished)
    assert [event.tries for event in job.events(Failing)] == [1]


def test_a_slot_in_which_no_worker_can_be_asked_for_is_given_up_and_the_others_train(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start("--epochs", "10000", "--pause", "0.05")
    a, t = emulated_cluster.slot("a100"), emulated_cluster.slot("t4")
    no_lease = replace(t, lease_id="no lease")
    job.assign(no_lease, a)
    lost = job.wait(WorkerLost)
    assert lost.slot == no_lease
    assert lost.reason.startswith("gave up a slot after 3 failed starts: ")
    job.wait(Released, lambda event: event.slots == (no_lease,))
    job.wait(Running, lambda event: event.slots == (a,))


def test_cancel_ends_every_process(start: Callable[..., Job], emulated_cluster: EmulatedCluster) -> None:
    job = start("--epochs", "1000", "--pause", "0.05")
    job.assign(emulated_cluster.slot("a100"), emulated_cluster.slot("t4"))
    job.wait(Running, lambda event: len(event.slots) == 2)
    processes = [psutil.Process(pid) for pid in job.pids().values()]
    job.actor.cancel.remote()
    job.wait(Released, count=2)
    for process in processes:
        process.wait(timeout=10)
    assert job.status().state == "cancelled"


def test_the_use_of_emulated_gpus_is_told_by_gpu_type(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    """On the t4 each step is followed by a pause, so that its GPU is idle for a part of the time."""
    job = start("--epochs", "10000", "--pause", "0.02", pace={"profile": "cifar10", "time_scale": 1.0})
    for gpu_type in ("a100", "t4"):
        job.assign(emulated_cluster.slot(gpu_type))
        told = job.wait(
            Reported, lambda event, t=gpu_type: event.used is not None and busy(event.used, t) is not None
        )
        assert told.used.by_type[gpu_type].emulated
        job.wait(Reported, lambda event, t=gpu_type: event.used is not None and (busy(event.used, t) or 0) > 0.05)
    # A busy machine tells the use as an event of its own where no report came in time to take it along.
    events = [event for event in job.events(object) if isinstance(event, Reported | Used)]
    told = [used for event in events if (used := event if isinstance(event, Used) else event.used) is not None]
    assert [used.number for used in told] == list(range(1, len(told) + 1))
    assert len({used.executor for used in told}) == 1


def test_a_job_that_never_trains_is_known_to_use_nothing(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster, tmp_path: Path
) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import signal\nsignal.pause()\n")
    job = start(script=script, pace={"profile": "cifar10", "time_scale": 1.0})
    job.assign(emulated_cluster.slot("t4"))
    told = job.wait(Used)
    assert told.by_type["t4"].gpu_util == 0.0
    assert told.by_type["t4"].seconds > 0


def busy(used: Used, gpu_type: str) -> float | None:
    """Return the utilisation that is told of a GPU type; None: nothing is."""
    return used.by_type[gpu_type].gpu_util if gpu_type in used.by_type else None


def test_trials_train_as_one_are_dropped_and_killed_and_each_comes_to_what_it_would_alone(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    trials = tuple(Trial(number=number, values={"lr": 0.1 / 2**number}) for number in range(3))
    script = SCRIPT.with_name("trials_script.py")
    job = start(script=script, trials=trials, training={"adaptivity": "rigid"})
    slot = emulated_cluster.slot("a100", 0)
    job.assign(slot)
    job.wait(Reported, lambda event: any(row.epoch == 2 for row in event.report.trials))
    job.actor.keep.remote([0, 2])
    dropped = job.wait(Reported, lambda event: any(row.trials == (0, 2) for row in event.report.trials))
    os.kill(job.pids()[slot], signal.SIGKILL)
    (job.folder / "killed").touch()
    job.wait(JobFinished)
    rows = {row.epoch: row for event in job.events(Reported) for row in event.report.trials if row.metrics}
    assert sorted(rows) == list(range(1, 9))
    assert (rows[1].trials, rows[8].trials) == ((0, 1, 2), (0, 2))
    assert dropped.report.trials
    for number in (0, 2):
        alone = losses_alone(script, job.folder, trials[number].values["lr"])
        told = [rows[epoch].metrics["loss"][rows[epoch].trials.index(number)] for epoch in sorted(rows)]
        assert told == pytest.approx(alone, rel=1e-3)


def losses_alone(script: Path, folder: Path, rate: Any) -> list[float]:
    """Return what the script reports of each epoch where it trains one trial by itself."""
    text = script.read_text().replace("coadapt.report(loss=total)", "print(total)")
    env = {**os.environ, "COADAPT_HYPERPARAMETERS": json.dumps({"lr": rate}), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", text, "--out", str(folder), "--samples", str(SAMPLES)]
    found = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return [float(line) for line in found.stdout.split()]
