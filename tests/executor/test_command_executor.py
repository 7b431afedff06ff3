"""A command on a real (local) Ray cluster: started, resized by restarts, killed, and ended with all it started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from coadapt.core.doors import Processes
from coadapt.estimators.pace import part_of_fastest
from coadapt.executor.command_job import CommandJob
from coadapt.executor.commands.reconciler import Rules
from coadapt.executor.protocol.job_events import (
    Failing,
    JobFailed,
    JobFinished,
    Killed,
    ProfileFinished,
    Released,
    Reported,
    Running,
    WorkerLost,
)

from tests.support.emulated_cluster import NAMESPACE, EmulatedCluster
from tests.support.executor_service import NAME, ToldJob

PROGRAM = Path(__file__).parents[1] / "support" / "restarting_program.py"
pytestmark = pytest.mark.live


class Job(ToldJob):
    """A job of the restarting program, or of another command."""

    def __init__(self, service: Any, folder: Path, *args: str, **options: Any) -> None:
        from coadapt.executor.command_executor import CommandExecutor

        super().__init__(service, CommandExecutor, folder)
        if "command" not in options:
            options |= {"script": str(PROGRAM), "command": (str(folder), *args)}
        job = CommandJob(
            id=self.id,
            working_dir=str(folder),
            state_dir=str(folder / "state"),
            log_dir=str(folder / "logs"),
            status_file="status.jsonl",
            report_interval_s=1.0,
            measured=True,
            service_name=NAME,
            service_namespace=NAMESPACE,
            **options,
        )
        self.begin(job)

    def steps(self) -> Counter[int]:
        """Count how often each step was made."""
        return Counter(map(int, (self.folder / "steps").read_text().split()))

    def pids(self) -> list[int]:
        return [pid for worker in self.status().workers.values() for pid in worker["pids"]]


@pytest.fixture
def start(service: Any, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def begin(*args: str, **options: Any) -> Job:
        jobs.append(Job(service, tmp_path, *args, **options))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.end()


def test_a_program_is_restarted_at_other_sizes_and_makes_every_step_once(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start("160", "0.1")
    a, b, t = (emulated_cluster.slot(*name) for name in (("a100", 0), ("a100", 1), ("t4", 0)))
    job.assign(a)
    assert job.wait(Running).slots == (a,)
    job.wait(Reported, lambda event: bool(event.report.rows))
    job.assign(a, b)
    grown = job.wait(Running, lambda event: event.sequence == 2)
    assert (set(grown.slots), grown.warm, grown.recovered) == ({a, b}, False, False)
    assert 0 < grown.pause_s < 60
    job.wait(Reported, lambda event: event.report.replicas == 2 and bool(event.report.rows))
    job.assign(b, t)
    assert set(job.wait(Running, lambda event: event.sequence == 3).slots) == {b, t}
    job.wait(Released, lambda event: event.slots == (a,))
    finished = job.wait(JobFinished)
    assert finished.metrics == {"loss": 1 / 160}
    assert job.steps() == Counter(range(1, 161))
    job.wait(Released, lambda event: set(event.slots) & {t} != set())
    reports = job.events(Reported)
    assert reports[-1].report.progress.fraction == 1.0
    rows = {event.report.replicas: event.report.rows[0].step_time_s for event in reports if event.report.rows}
    assert rows.keys() == {1, 2}, "both sizes were measured"
    assert all(step_time_s > 0 for step_time_s in rows.values())


BUSY = """
import pathlib, time
begun = time.monotonic()
while time.monotonic() - begun < 2:
    pass
pathlib.Path("cpu").write_text(str(time.process_time() / 2))
"""


def test_a_command_with_a_pace_runs_on_an_emulated_node_for_its_type_s_part_of_the_time(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start(command=("python", "-c", BUSY), pause_profile="cifar10")
    job.assign(emulated_cluster.slot("t4"))
    job.wait(JobFinished)
    assert float((job.folder / "cpu").read_text()) < part_of_fastest("cifar10", "t4") + 0.2 < 0.5


def test_a_plain_program_runs_once_and_a_profile_run_is_refused(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    command = ("bash", "-c", "echo $PET_NPROC_PER_NODE GPUs of $COADAPT_GPU_TYPE; exit 0")
    job = start(command=command, processes=Processes.NODE)
    slots = emulated_cluster.slot("a100"), emulated_cluster.slot("a100", 1)
    job.actor.profile.remote(slots[0], 1)
    assert not job.wait(ProfileFinished).ok
    job.assign(*slots)
    job.wait(JobFinished)
    job.wait(Released, lambda event: set(event.slots) == set(slots))
    assert "2 GPUs of a100\n" in job.log()


def test_an_error_comes_with_its_traceback_and_ends_a_job_that_may_not_start_again(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start("50", "0.01", "fail", rules=Rules(retries_errors=False))
    job.assign(emulated_cluster.slot("t4"))
    failed = job.wait(JobFailed)
    assert failed.summary == "ArithmeticError: the program's own mistake"
    assert "restarting_program.py" in failed.traceback
    assert job.events(Failing) == []
    job.wait(Released)


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster
) -> None:
    job = start("100000", "0.05", "ignore", rules=Rules(grace_s=1.0))
    a = emulated_cluster.slot("a100")
    job.assign(a)
    job.wait(Reported)
    (pid,) = job.pids()
    job.assign()
    assert job.wait(Killed).what == "rank 0 went on 1 s after SIGTERM and was killed"
    job.wait(Released, lambda event: event.slots == (a,))
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("killed", ["executor", "worker"])
def test_nothing_of_a_job_outlives_its_executor_or_worker_and_it_starts_again(
    start: Callable[..., Job], emulated_cluster: EmulatedCluster, killed: str
) -> None:
    import ray

    job = start("100000", "0.05")
    a = emulated_cluster.slot("a100")
    job.assign(a)
    job.wait(Reported)
    program = psutil.Process(job.pids()[0])
    if killed == "executor":
        ray.kill(job.actor, no_restart=False)
        job.wait(Released, lambda event: event.everything)
    else:
        (worker,) = (one for one in ray.util.list_named_actors(True) if one["name"].startswith(f"{job.id}/"))
        ray.kill(ray.get_actor(worker["name"], worker["namespace"]), no_restart=True)
        assert "was lost with its worker" in job.wait(WorkerLost).reason
    program.wait(timeout=20)
    if killed == "executor":
        job.assign(a)
    again = job.wait(Running, count=2)
    assert again.recovered == (killed == "worker")
    assert job.status().failures == 0
