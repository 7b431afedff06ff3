"""How long training pauses when a job is resized: last step before to first step after, medians.

    python -m benchmarks.resize_pause

`cold_s`: save, stop, start on another node, restore. `warm_s`: one replica more or fewer, the others stay.
`recovery_s`: SIGKILL of one of two training processes, survivors go on in place. `torchrun_s`, `ray_train_s`: the
same training under torchrun's and Ray Train's restart after the same SIGKILL, in the same run.

`start_cpu_s`: CPU seconds from the request of a training process to its script's first line. It counts the
    process, the template that forks it and the worker that asks. `plain_start_cpu_s`: the same, started as any
    program. The worker itself is not in either: Ray starts it, and it imports no torch.

All of it ends within four minutes: each part has a share of that time, and makes fewer pauses where it runs out.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from coadapt.core.slot import Slot
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.executor_job import ExecutorJob, ExecutorStatus
from coadapt.executor.light_actor import executor_class, packed
from coadapt.executor.processes.template_wire import Owner
from coadapt.executor.processes.training_process import Launch, TrainingProcess
from coadapt.executor.protocol.worker_events import Output

from .arguments import at_least
from .harness import finish, table
from .resize_peers import GRACE_S, SCRIPTS, ray_train_pauses, torchrun_pauses
from .scripts.resize_step import steps

PATIENCE_S = 120.0
# When the last pause may begin, in seconds since the start, and what each part may take of that. A pause that has
# begun is seen through for at most `GRACE_S`.
ALL_S = 200.0
STARTS_S, OURS_S, TORCHRUN_S, RAY_TRAIN_S = 20.0, 95.0, 40.0, 45.0


class Training:
    """One job under an `AdaptiveExecutor` on a cluster of two emulated nodes; a replica is so many `processes`."""

    def __init__(self, folder: str, until_s: float, script: str = "resize_coadapt.py", processes: int = 1) -> None:
        import ray
        from coadapt.executor.adaptive_executor import AdaptiveExecutor

        self.folder, self.processes = folder, processes
        self._until_s = until_s  # on `time.monotonic`
        self._sequence = 0
        job = ExecutorJob(
            id="resize",
            script=str(SCRIPTS / script),
            args=(folder,),
            training=TrainingConfig(report_interval_s=5.0),
            checkpoint_url=f"{folder}/checkpoints",
            log_dir=f"{folder}/logs",
            gpus_per_replica={"*": processes},
            sharded=processes > 1,
            service_name="",
        )
        self._executor = (
            ray.remote(executor_class(AdaptiveExecutor)).options(num_cpus=0, max_concurrency=8).remote(packed(job))
        )

    def assign(self, *slots: Slot) -> None:
        """Return ask for these slots and wait until the job trains on them, or has released all."""
        self._sequence += 1
        self._executor.assign.remote(list(slots), self._sequence)
        self.settle(slots)

    def settle(self, slots: Sequence[Slot]) -> None:
        idle = not slots
        self._until(
            lambda status: (
                status.sequence == self._sequence
                and (not status.slots if idle else status.state == "training")
                and set(status.group if not idle else ()) == set(slots)
            )
        )

    def replaced(self, victim: int) -> None:
        """Wait until another process has taken the place of a dead one."""

        def trains(status: ExecutorStatus) -> bool:
            alive = {worker["pid"] for worker in status.workers.values() if worker["rank"] >= 0}
            return status.state == "training" and len(status.group) == 2 and victim not in alive

        self._until(trains)

    def status(self) -> ExecutorStatus:
        import ray

        status: ExecutorStatus = ray.get(self._executor.status.remote())
        return status

    def _until(self, accept: Callable[[ExecutorStatus], bool]) -> None:
        deadline = time.monotonic() + self.patience_s()
        while not accept(status := self.status()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job did not settle: {status}")
            time.sleep(0.02)

    def patience_s(self) -> float:
        return min(PATIENCE_S, max(self._until_s - time.monotonic(), 0.0) + GRACE_S)

    def pids(self) -> dict[Slot, int]:
        return {worker["slot"]: worker["pid"] for worker in self.status().workers.values()}

    def trained(self, world: int, after_s: float, count: int = 10) -> float:
        """Wait for steps of a group of `world` replicas; the time of the first one after `after_s`."""
        deadline = time.monotonic() + self.patience_s()
        while True:
            found = [t for t, _, size, _ in steps(self.folder) if size == world * self.processes and t > after_s]
            if len(found) >= count:
                return found[0]
            if time.monotonic() > deadline:
                raise TimeoutError(f"no steps of {world} replicas")
            time.sleep(0.05)

    def last_step(self, before_s: float, pids: Sequence[int] | None = None) -> float:
        found = [t for t, _, _, pid in steps(self.folder) if t < before_s and (pids is None or pid in pids)]
        return max(found)

    def end(self) -> None:
        import ray

        ray.kill(self._executor)


def warm_pause(job: Training, before: Sequence[Slot], after: Sequence[Slot]) -> float:
    job.trained(len(before), time.time())
    since_s = time.time()
    job.assign(*after)
    first = job.trained(len(after), since_s)
    return first - job.last_step(first)


def recovery_pause(job: Training, slots: Sequence[Slot]) -> float:
    """Kill the second of two processes; the first goes on by itself until the place is taken again."""
    job.trained(2, time.time())
    job.settle(slots)
    pids = job.pids()
    survivor, victim = (pids[slot] for slot in job.status().group)
    killed_s = time.time()
    os.kill(victim, signal.SIGKILL)
    job.replaced(victim)
    done_s = job.trained(2, time.time())
    each = job.processes
    after = [
        (t, size // each) for t, _, size, pid in steps(job.folder) if pid == survivor and killed_s < t <= done_s
    ]
    # Where the replacement was there as soon as the survivor, no step was made without it.
    first = min((t for t, size in after if size == 1), default=done_s)
    return first - max((t for t, size in after if size == 2 and t < first), default=job.last_step(killed_s))


def cold_pause(job: Training, after: Slot) -> float:
    job.trained(1, time.time())
    old = list(job.pids().values())
    job.assign()
    stopped_s = time.time()
    job.assign(after)
    return job.trained(1, stopped_s) - job.last_step(stopped_s, old)


def several(measure: Callable[[int], float], count: int, seconds: float) -> list[float]:
    """Make `count` measurements, or as many as begin in so many seconds; one that does not end is the last."""
    until_s, found = time.monotonic() + seconds, list[float]()
    with suppress(TimeoutError):
        while len(found) < count and time.monotonic() < until_s:
            found.append(measure(len(found)))
    return found


def our_pauses(
    count: int, seconds: float, script: str = "resize_coadapt.py", processes: int = 1
) -> dict[str, list[float]]:
    """Return cold, warm and recovery pauses on one local Ray cluster."""
    from ray.cluster_utils import Cluster

    # Ray starts its workers with a low priority, torchrun does not: whatever else runs here would tell them apart.
    os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    import ray

    until_s = time.monotonic() + seconds
    pauses: dict[str, list[float]] = {"cold_s": [], "warm_s": [], "recovery_s": []}
    common: dict[str, Any] = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    with tempfile.TemporaryDirectory(prefix="ca-") as folder:
        os.environ["RAY_TMPDIR"] = folder
        cluster = Cluster(initialize_head=True, head_node_args={**common, "num_cpus": 1, "num_gpus": 0})
        try:
            nodes = [cluster.add_node(**common, num_cpus=1, num_gpus=1).node_id for _ in range(2)]
            ray.init(address=cluster.address, log_to_driver=False)
            devices = tuple(range(processes))
            a, b = (Slot(node, "", devices, "a100", emulated=True) for node in nodes)
            job = Training(tempfile.mkdtemp(dir=folder), until_s, script, processes)

            def share(parts: int) -> float:
                return max(until_s - time.monotonic(), 0.0) / parts

            with suppress(TimeoutError):
                job.assign(a)
                pauses["cold_s"] = several(lambda i: cold_pause(job, a if i % 2 else b), count, share(2))
                job.assign(a)
                pauses["warm_s"] = several(
                    lambda i: warm_pause(job, *(([a, b], [a]) if i % 2 else ([a], [a, b]))), count, share(2)
                )
                job.assign(a, b)
                pauses["recovery_s"] = several(lambda i: recovery_pause(job, [a, b]), count, share(1))
            job.end()
            return pauses
        finally:
            ray.shutdown()
            cluster.shutdown()
            os.environ.pop("RAY_TMPDIR")


class Starts:
    """Starts of a script that says at its first line how much CPU its process has used."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "first_line.py"
        self._script.write_text("import os, time\nprint('at', time.process_time(), os.getppid(), flush=True)\n")
        self._owner = Owner(uuid.uuid4().hex, os.getpid())
        self._template = 0
        self.from_template()  # which starts the template

    def from_template(self) -> float:
        return self._cpu_s(self._owner)

    def plain(self) -> float:
        return self._cpu_s(None)

    def _cpu_s(self, owner: Owner | None) -> float:
        """Return CPU seconds from the request on, of this process, the template and the started one."""
        spent: list[float] = []
        before_s = self._own_s(owner)

        def note(event: object) -> None:
            if isinstance(event, Output) and event.text.startswith("at "):
                _, its_own, parent = event.text.split()[:3]
                if owner is not None:
                    self._template = int(parent)
                spent.append(float(its_own) + self._own_s(owner) - before_s)

        launch = Launch(str(self._script), (), {"OMP_NUM_THREADS": "1"}, str(self._script.parent), owner=owner)
        TrainingProcess(launch, note).run()
        return spent[0]

    def _own_s(self, owner: Owner | None) -> float:
        spent_s = time.process_time()
        if owner is not None and self._template:
            spent_s += int(Path(f"/proc/{self._template}/schedstat").read_text().split()[0]) / 1e9
        return spent_s


def start_costs(count: int, seconds: float) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        starts = Starts(Path(folder))
        plain = several(lambda _: starts.plain(), min(count, 3), seconds / 2)
        return {
            "start_cpu_s": several(lambda _: starts.from_template(), count, seconds / 2),
            "plain_start_cpu_s": plain,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=at_least(1), default=10, help="pauses of each kind, at most")
    parser.add_argument("--no-peers", action="store_true", help="leave out torchrun and Ray Train")
    options = parser.parse_args()
    count = options.count
    until_s = time.monotonic() + ALL_S

    def share(seconds: float) -> float:
        return max(min(seconds, until_s - time.monotonic()), 0.0)

    measured = start_costs(count, share(STARTS_S)) | our_pauses(count, share(OURS_S))
    if not options.no_peers:
        measured["torchrun_s"] = torchrun_pauses(count, share(TORCHRUN_S))
        measured["ray_train_s"] = ray_train_pauses(count, share(RAY_TRAIN_S))
    medians = {name: statistics.median(values) if values else None for name, values in measured.items()}
    table(
        f"Pause of training and cost of a start, seconds; up to {count} each, as many as its share of time allows",
        ["", "median", "smallest", "largest", "count"],
        [[name, medians[name] or "-", *_range(values), len(values)] for name, values in measured.items()],
    )
    finish("resize_pause", medians)


def _range(values: Sequence[float]) -> list[object]:
    return [min(values), max(values)] if values else ["-", "-"]


if __name__ == "__main__":
    main()
