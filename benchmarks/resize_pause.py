"""How long training pauses when a job is resized: last step before to first step after, median of 10.

    python -m benchmarks.resize_pause

`cold_s`: save, stop, start on another node, restore. `warm_s`: one replica more or fewer, the others stay.
`recovery_s`: SIGKILL of one of two training processes, survivors go on in place. `torchrun_s`, `ray_train_s`: the
same training under torchrun's and Ray Train's restart after the same SIGKILL, in the same run.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from coadapt.executor.config import TrainingConfig
from coadapt.executor.executor_job import ExecutorJob, ExecutorStatus
from coadapt.executor.slot import Slot

from .harness import finish, table
from .resize_peers import SCRIPTS, ray_train_pauses, torchrun_pauses
from .scripts.resize_step import steps

PATIENCE_S = 120.0


class Training:
    """One job under an `AdaptiveExecutor` on a cluster of two emulated nodes."""

    def __init__(self, folder: str) -> None:
        import ray
        from coadapt.executor.adaptive_executor import AdaptiveExecutor

        self.folder = folder
        self._sequence = 0
        job = ExecutorJob(
            id="resize",
            script=str(SCRIPTS / "resize_coadapt.py"),
            args=(folder,),
            training=TrainingConfig(report_interval_s=5.0),
            checkpoint_url=f"{folder}/checkpoints",
            log_dir=f"{folder}/logs",
            gpus_per_replica={"*": 1},
            service_name="",
        )
        self._executor = ray.remote(AdaptiveExecutor).options(num_cpus=0, max_concurrency=8).remote(job)

    def assign(self, *slots: Slot) -> None:
        """Ask for these slots and wait until the job trains on them, or has released all."""
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

    def status(self) -> ExecutorStatus:
        import ray

        status: ExecutorStatus = ray.get(self._executor.status.remote())
        return status

    def _until(self, accept: Callable[[ExecutorStatus], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not accept(status := self.status()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job did not settle: {status}")
            time.sleep(0.02)

    def pids(self) -> dict[Slot, int]:
        return {worker["slot"]: worker["pid"] for worker in self.status().workers.values()}

    def trained(self, world: int, after_s: float, count: int = 10) -> float:
        """Wait for steps of a group of `world` replicas; the time of the first one after `after_s`."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = [t for t, _, size, _ in steps(self.folder) if size == world and t > after_s]
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
    """The second of two processes is killed; afterwards its place is taken again."""
    job.trained(2, time.time())
    job.settle(slots)
    victim = job.pids()[job.status().group[1]]
    killed_s = time.time()
    os.kill(victim, signal.SIGKILL)
    first = job.trained(1, killed_s)
    job.trained(2, first)
    return first - job.last_step(killed_s)


def cold_pause(job: Training, after: Slot) -> float:
    job.trained(1, time.time())
    old = list(job.pids().values())
    job.assign()
    stopped_s = time.time()
    job.assign(after)
    return job.trained(1, stopped_s) - job.last_step(stopped_s, old)


def our_pauses(count: int) -> dict[str, list[float]]:
    """Cold, warm and recovery pauses on one local Ray cluster."""
    from ray.cluster_utils import Cluster

    os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
    import ray

    common: dict[str, Any] = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    with tempfile.TemporaryDirectory(prefix="ca-") as folder:
        os.environ["RAY_TMPDIR"] = folder
        cluster = Cluster(initialize_head=True, head_node_args={**common, "num_cpus": 1, "num_gpus": 0})
        try:
            nodes = [cluster.add_node(**common, num_cpus=1, num_gpus=1).node_id for _ in range(2)]
            ray.init(address=cluster.address, log_to_driver=False)
            a, b = (Slot(node, "", 1, "a100", emulated=True) for node in nodes)
            job = Training(tempfile.mkdtemp(dir=folder))
            job.assign(a)
            warm: list[float] = []
            while len(warm) < count:
                warm += [warm_pause(job, [a], [a, b]), warm_pause(job, [a, b], [a])]
            job.assign(a, b)
            recovery = [recovery_pause(job, [a, b]) for _ in range(count)]
            job.assign(a)
            cold = [cold_pause(job, b if i % 2 == 0 else a) for i in range(count)]
            job.end()
            return {"cold_s": cold, "warm_s": warm[:count], "recovery_s": recovery}
        finally:
            ray.shutdown()
            cluster.shutdown()
            os.environ.pop("RAY_TMPDIR")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10, help="pauses of each kind")
    parser.add_argument("--no-peers", action="store_true", help="leave out torchrun and Ray Train")
    options = parser.parse_args()
    pauses = our_pauses(options.count)
    if not options.no_peers:
        pauses["torchrun_s"] = torchrun_pauses(options.count)
        pauses["ray_train_s"] = ray_train_pauses(options.count)
    medians = {name: statistics.median(values) for name, values in pauses.items()}
    table(
        "Pause of training, seconds",
        ["", "median", "smallest", "largest", "count"],
        [[name, medians[name], min(v), max(v), len(v)] for name, v in pauses.items()],
    )
    finish("resize_pause", medians)


if __name__ == "__main__":
    main()
