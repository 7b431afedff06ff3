"""A whole round of the service at scale: the real cycle, a real store on disk, a real policy; executors are stubs.

    python -m benchmarks.service_round [--gpus 10000] [--jobs 2000] [--rounds 30] [--policy coadapt] [--seed 0]

Jobs have been measured on every GPU type, have a history of intervals, and run. Between two rounds every job
reports once, 1 % of the jobs end and as many come: the round has all of that before it. Ticks with nothing new
follow it. A part of the reports brings step times, the others a new noise scale. What executors do before they
send is not counted. The first two rounds start all jobs and are left out. Rounds are timed in wall and in CPU
time, phases and ticks in wall time, and reports in CPU time from their bytes on.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from coadapt.core.cluster import Cluster
from coadapt.core.job import JobSpec, Phase
from coadapt.core.reports import JobInfo, Progress, Report, StepRow
from coadapt.core.settings import Settings
from coadapt.core.slot import Slot
from coadapt.estimators.measurements import Measurements
from coadapt.executor.executor_job import ExecutorStatus
from coadapt.executor.protocol.job_events import JobFinished, Released, Reported, Running
from coadapt.policies.catalogue import make_policy
from coadapt.policies.warm_up import warm_up
from coadapt.scheduler.cycle import CycleResult, SchedulingCycle
from coadapt.scheduler.jobs.lifecycle import advance
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.store.store import Store

from .arguments import at_least, share
from .harness import finish, table
from .large_rounds import cluster

ROUND_S = 60.0
KINDS = 24  # of models that jobs train
HISTORY = 20  # intervals that a running job has had
TICKS = 20  # with nothing new, after each round
GPUS, JOBS = 10_000, 2_000  # by default; figures of other sizes and policies are named after them
WITH_ROWS = 0.05  # of the reports: they bring step times
SPEED = {"a10": 1.6, "a100": 4.0, "h100": 8.0, "quad": 1.2, "rtx": 1.0, "t4": 0.6, "v100": 2.0}


class SteppedClock:
    """Real durations, and a wall clock that is moved from round to round."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def wall_s(self) -> float:
        return self.steady_s()

    def steady_s(self) -> float:
        return 1.8e9 + time.perf_counter() + self._ahead_s

    def monotonic_s(self) -> float:
        return time.perf_counter() + self._ahead_s

    def forward(self, seconds: float) -> None:
        self._ahead_s += seconds


@dataclass
class FixedNodes:
    snapshot: NodesSnapshot

    @classmethod
    def of(cls, where: Cluster) -> FixedNodes:
        ids = [node.id for node in where.nodes]
        leases = {id: f"lease-{id}" for id in ids}
        return cls(NodesSnapshot(where, leases, frozenset(ids), names={id: id for id in ids}, ready=True))


@dataclass
class StubExecutors:
    """Keeps what was assigned, for the answers."""

    assigned: list[str] = field(default_factory=list)

    def assign(self, job: JobRecord, slots: Sequence[Slot], sequence: int) -> None:
        self.assigned.append(job.id)

    def profile(self, job: JobRecord, slot: Slot, sequence: int) -> None: ...

    def end_profile(self, job: JobRecord, slot: Slot, sequence: int) -> None: ...

    def save(self, job: JobRecord) -> None: ...

    def cancel(self, job: JobRecord) -> None: ...

    def restart(self, job: JobRecord) -> None: ...

    def retire(self, job: JobRecord) -> None: ...

    def retire_others(self, jobs: Sequence[JobRecord]) -> None: ...

    def statuses(self, jobs: Sequence[JobRecord], timeout_s: float) -> Mapping[str, ExecutorStatus | None]:
        return {}


class Service:
    """The cycle and all that happens to it from round to round."""

    def __init__(self, folder: Path, gpus: int, jobs: int, policy: str, churn: float, seed: int) -> None:
        self.settings = Settings(state_dir=str(folder), policy=policy, round_interval_s=ROUND_S, debounce_s=0.0)
        self.cluster, self.asked_gpus = cluster(gpus), gpus
        self.store, self.clock, self.executors = Store(self.settings.store_path), SteppedClock(), StubExecutors()
        self.rng, self.jobs, self.churn, self.made = np.random.default_rng(seed), jobs, churn, 0
        self.models = [self._measured(kind) for kind in range(KINDS)]
        self.add(jobs, history=HISTORY)
        nodes = FixedNodes.of(self.cluster)
        self.cycle = SchedulingCycle(
            self.store, make_policy(policy), nodes, self.executors, self.clock, self.settings
        )

    def _measured(self, kind: int) -> Measurements:
        found = Measurements().with_info(JobInfo(f"net-{kind}", 64, 10_000_000, 100_000, adam_type=False))
        found = replace(found, grad_sqr=1.0, grad_var=float(self.rng.uniform(200, 20_000)))
        per_sample_s, link_s = float(self.rng.uniform(0.001, 0.02)), float(self.rng.uniform(0.01, 0.1))
        for gpu_type in self.cluster.gpu_types:
            rows = []
            for nodes, replicas in ((1, 1), (1, 2), (1, 4), (2, 8)):
                for size in (8, 16, 32, 64, 128):
                    sync_s = link_s * (replicas > 1) * nodes
                    step_s = size * per_sample_s / SPEED[gpu_type] + sync_s
                    rows.append(StepRow(nodes, replicas, size, 0, step_s, sync_s, 20))
            found = found.with_rows(gpu_type, rows)
        return found

    def add(self, count: int, history: int) -> None:
        """Add jobs that were measured and wait in the queue, in one transaction."""
        now = self.clock.steady_s()
        with self.store.together():
            self.store.save_all([self._new_job(now, history) for _ in range(count)], [], now)

    def _new_job(self, now: float, history: int) -> JobRecord:
        self.made += 1
        most = int(2 ** self.rng.integers(2, 7))
        spec = JobSpec.model_validate(
            {
                "name": "job",
                "script": "train.py",
                "resources": {"max_gpus": most},
                "training": {"max_batch_size": 4096},
            }
        )
        key = f"script-{self.made}"
        job, _ = self.store.submit(spec, now, idempotency_key=key, script_key=key)
        for at in range(history):
            start_s = now - 300.0 * (history - at)
            self.store.hold(UsageInterval(job.id, start_s, None, "t4", 1 + at % 4, 1, 64, 0.1))
        if history:
            self.store.release(job.id, now)
        return replace(
            job,
            state=advance(job.state, Phase.QUEUED, now),
            measurements=self.models[int(self.rng.integers(KINDS))],
            profiles=tuple(ProfileRun(t, ok=True) for t in self.cluster.gpu_types),
            largest_gpus=dict.fromkeys(self.cluster.gpu_types, most // 2),
        )

    def answer(self) -> None:
        """Have executors carry out what they were told, and leave what they left."""
        assigned, self.executors.assigned[:] = list(dict.fromkeys(self.executors.assigned)), []
        for job_id in assigned:
            job = self.store.get(job_id)
            if not job.active:
                continue
            if job.target:
                paused_s = 5.0 if job.pauses else None
                self.cycle.on_event(job_id, Running(job.sequence, job.target, warm=True, pause_s=paused_s))
            if gone := tuple(sorted(set(job.held) - set(job.target))):
                self.cycle.on_event(job_id, Released(job.sequence, gone))

    def settle(self, most: int = 5) -> None:
        """Run cycles until everything that was planned runs."""
        for _ in range(most):
            if not self.executors.assigned:
                return
            self.answer()
            self.cycle.step()

    def report(self) -> list[float]:
        """Have every job that trains report once; return the CPU seconds of each."""
        seconds = []
        for job in list(self.store.unretired.values()):
            if not job.group or job.measurements is None:
                continue
            its_own = pickle.loads(pickle.dumps(job.measurements))  # an executor lives in another process
            sent = pickle.dumps(self._report(job, its_own))
            began = time.process_time()
            self.cycle.on_event(job.id, pickle.loads(sent))
            seconds.append(time.process_time() - began)
        return seconds

    def _report(self, job: JobRecord, known: Measurements) -> Reported:
        gpu_type, replicas = job.group[0].gpu_type, len(job.group)
        nodes = len({slot.node_id for slot in job.group})
        rows: tuple[StepRow, ...] = ()
        if self.rng.random() < WITH_ROWS:
            rows = (StepRow(nodes, replicas, 64, 0, float(self.rng.uniform(0.1, 0.3)), 0.02, 20),)
        noise = (known.grad_var or 1000.0) * float(self.rng.lognormal(0, 0.02))
        done = Progress(3, 60, 0.05, 1000, 64_000, 50_000.0)
        report = Report(
            1, gpu_type, nodes, replicas, rows, 1.0, noise, 64 * replicas, 64, 0, 0.1, 1.5, done, {"loss": 0.5}
        )
        measured = known.with_report(report)
        if rows:
            measured.job_model(job.spec.training, {"*": 1})
        return Reported(report, measured)

    def churned(self) -> None:
        """End a part of the jobs, and let as many come."""
        running = [job for job in self.store.unretired.values() if job.active and job.group]
        count = int(self.jobs * self.churn)
        for at in sorted(self.rng.choice(len(running), min(count, len(running)), replace=False).tolist()):
            job = running[at]
            self.cycle.on_event(job.id, JobFinished())
            self.cycle.on_event(job.id, Released(job.sequence, job.held))
        self.add(count, history=0)

    def round(self) -> tuple[float, float, CycleResult]:
        """Run one round; return its wall seconds, its CPU seconds and its result."""
        self.clock.forward(ROUND_S)
        self.cycle.ask_round()
        began, cpu_began = time.perf_counter(), time.process_time()
        result = self.cycle.step()
        return time.perf_counter() - began, time.process_time() - cpu_began, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=at_least(1), default=GPUS)
    parser.add_argument("--jobs", type=at_least(1), default=JOBS)
    parser.add_argument("--rounds", type=at_least(1), default=30)
    parser.add_argument("--policy", default="coadapt")
    parser.add_argument("--churn", type=share, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warm_up(args.policy, {})
    with tempfile.TemporaryDirectory() as folder:
        measure(Service(Path(folder), args.gpus, args.jobs, args.policy, args.churn, args.seed), args.rounds)


def measure(service: Service, rounds: int) -> None:
    """Time rounds, ticks and reports, and print what they took."""
    for _ in range(2):
        service.round()
        service.settle()
    gc.collect()
    gc.freeze()
    seconds, cpu, ticks, reports = list[float](), list[float](), list[float](), list[float]()
    phases: dict[str, list[float]] = {}
    served: list[int] = []
    for _ in range(rounds):
        reports += service.report()
        service.churned()
        took, cpu_took, result = service.round()
        seconds.append(took)
        cpu.append(cpu_took)
        for phase, spent in result.timings.items():
            phases.setdefault(phase, []).append(spent)
        served.append(len(result.plan.placements) if result.plan is not None else 0)
        service.settle()
        service.cycle.step()
        for _ in range(TICKS):
            began = time.perf_counter()
            service.cycle.step()
            ticks.append(time.perf_counter() - began)
    rows = [
        [name, *(float(f(values)) * 1e3 for f in (np.median, p99, np.max))]
        for name, values in {
            "round": seconds,
            "round, CPU": cpu,
            **phases,
            "tick": ticks,
            "report, CPU": reports,
        }.items()
    ]
    jobs, gpus = service.jobs, sum(node.gpus for node in service.cluster.nodes)
    title = (
        f"{gpus:,} GPUs on {len(service.cluster.nodes):,} nodes, {jobs:,} jobs ({int(np.median(served)):,} served)"
    )
    table(
        f"{title}, {rounds} rounds of {service.settings.policy}: milliseconds", ["", "median", "p99", "most"], rows
    )
    figures: dict[str, float | int | str | None] = {
        "gpus": gpus,
        "jobs": jobs,
        "rounds": rounds,
        "round_p50_ms": round(float(np.median(seconds)) * 1e3, 2),
        "round_p99_ms": round(p99(seconds) * 1e3, 2),
        "round_cpu_p50_ms": round(float(np.median(cpu)) * 1e3, 2),
        "round_cpu_p99_ms": round(p99(cpu) * 1e3, 2),
        "tick_p99_ms": round(p99(ticks) * 1e3, 3),
        "report_cpu_ms": round(float(np.mean(reports)) * 1e3, 3),
    }
    figures |= {f"{phase}_p99_ms": round(p99(spent) * 1e3, 2) for phase, spent in phases.items()}
    policy = service.settings.policy
    of = "" if policy == "coadapt" else f"_{policy}"
    if (service.asked_gpus, jobs) != (GPUS, JOBS):
        of += f"_{service.asked_gpus}_gpus"
    figures = {name + of: value for name, value in figures.items()}
    finish("service_round", figures, f"policy {policy}, churn {service.churn}")


def p99(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.99))


if __name__ == "__main__":
    main()
