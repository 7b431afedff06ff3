"""What a job costs the head, and all nodes together, in memory: running jobs, and those that hold nothing.

    python -m benchmarks.head [--jobs 8] [--seconds 40]

Jobs run for a while on a small cluster of emulated nodes, beside as many that wait or are paused. Memory is PSS:
pages that processes share are divided between them.
* mib_per_running_job: the executor actor, and its share of the helper of the machine.
* head_mib_per_running_job: what stands on the head of that, and its share of the actor that writes logs there.
* mib_per_other_job: executors of jobs that hold nothing.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from coadapt.client.client import Client
from coadapt.client.cluster_record import ClusterRecord
from coadapt.core.job import Emulation, JobSpec, ResourceRequest
from coadapt.core.settings import Settings
from coadapt.core.training_config import TrainingConfig
from coadapt.deploy import local_cluster

from .arguments import at_least
from .harness import finish, table

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import coadapt

torch.manual_seed(0)
x = torch.randn(512, 8)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=32, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(100_000):
    for a, b in loader:
        loss = nn.functional.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item(), flush=True)
"""
MIB = 2**20
PATIENCE_S = 300.0
EXECUTOR, FILES, STORES = "ray::AdaptiveExecutor", "ray::HeadFiles", "coadapt.executor.processes.helper"


def pss_mib(processes: Iterable[psutil.Process]) -> float:
    """Return the PSS of processes together; those that are gone count nothing."""
    total = 0
    for process in processes:
        with suppress(OSError):
            for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total / MIB


def descendants(roots: Sequence[psutil.Process | None]) -> list[psutil.Process]:
    found = []
    for root in roots:
        with suppress(psutil.Error):
            found += root.children(recursive=True) if root is not None else []
    return found


def titled(processes: Iterable[psutil.Process], title: str) -> list[psutil.Process]:
    """Return processes whose command line begins with a title, or has it as a word."""
    found = []
    for process in processes:
        with suppress(psutil.Error):
            words = process.cmdline() or [""]
            if words[0].startswith(title) or title in words:
                found.append(process)
    return found


def spec(folder: Path) -> JobSpec:
    return JobSpec(
        name="steady",
        script="train.py",
        working_dir=str(folder),
        resources=ResourceRequest(max_gpus=1),
        training=TrainingConfig(report_interval_s=2.0),
        emulation=Emulation(profile="cifar10", time_scale=0.2),
        profile=False,
    )


def wait_for(client: Client, what: str, jobs: Sequence[str], *, held: bool) -> None:
    """Wait until all jobs run and have told how far they are, or until none holds anything."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        rows = {row["id"]: row for row in client.list()}
        found = [rows[job] for job in jobs]
        if all(row["phase"] == "running" and row["steps"] > 0 if held else row["gpus"] == 0 for row in found):
            return
        time.sleep(1.0)  # between two questions to the service, up to a limit
    raise SystemExit(f"{what}: not in {PATIENCE_S:.0f} s: {[(job, rows[job]['phase']) for job in jobs]}")


def look(settings: Settings) -> tuple[list[psutil.Process], list[psutil.Process], list[psutil.Process]]:
    """Return the processes of the head, those of all other nodes, and those for rendezvous stores."""
    record = ClusterRecord.load(settings.state_dir)
    assert record is not None
    head = descendants([process.alive() for process in record.head])
    nodes = descendants([process.alive() for node in record.nodes for process in node.processes])
    marked = []
    for process in titled(psutil.process_iter(), STORES):
        with suppress(psutil.Error):
            if process.environ().get(local_cluster.MARK, "").startswith(record.mark):
                marked.append(process)
    return head, nodes, marked


def measure(jobs: int, seconds: int) -> dict[str, float | int | str | None]:
    folder = Path(tempfile.mkdtemp(prefix="coadapt-head-"))
    (folder / "job").mkdir()
    (folder / "job" / "train.py").write_text(SCRIPT)
    settings = Settings(state_dir=str(folder / "state"), round_interval_s=5.0, policy="fifo", executor_idle_s=2.0)
    try:
        with local_cluster.cluster(f"2x t4:{-(-jobs // 2)}", settings=settings) as client:
            one = spec(folder / "job")
            paused = [client.submit(one) for _ in range(jobs)]
            wait_for(client, "jobs that are to be paused run", paused, held=True)
            for job in paused:
                client.pause(job)
            running = [client.submit(one) for _ in range(2 * (-(-jobs // 2)))]
            waiting = [client.submit(one) for _ in range(jobs)]
            wait_for(client, "jobs run", running, held=True)
            wait_for(client, "jobs hold nothing", [*paused, *waiting], held=False)
            time.sleep(seconds)  # memory is looked at after jobs have trained for a while
            head, nodes, stores = look(settings)
            on_head, elsewhere = titled(head, EXECUTOR), titled(nodes, EXECUTOR)
            executors = pss_mib([*on_head, *elsewhere])
            count = len(running)
            found = len(on_head) + len(elsewhere)
            beyond = max(found - count, 0)
            share = pss_mib(stores) / count
            files = pss_mib(titled(head, FILES))
            rows = [
                ["executors", found, executors, executors / max(found, 1)],
                ["of these on the head", len(on_head), pss_mib(on_head), pss_mib(on_head) / count],
                ["helper of the machine", len(stores), share * count, share],
                ["actor that writes logs on the head", 1 if files else 0, files, files / count],
            ]
            table(f"{count} running jobs, {2 * jobs} others", ["what", "processes", "PSS, MiB", "MiB a job"], rows)
            return {
                "running_jobs": count,
                "other_jobs": len(paused) + len(waiting),
                "executors": found,
                "mib_per_running_job": round(executors / max(found, 1) + share, 1),
                "head_mib_per_running_job": round((pss_mib(on_head) + files) / count, 1),
                "mib_per_other_job": round(beyond * executors / max(found, 1) / (2 * jobs), 1),
                "service_mib": round(pss_mib(titled(head, "ray::SchedulerService")), 1),
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=at_least(2), default=8, help="that run, and that are paused, and that wait")
    parser.add_argument("--seconds", type=at_least(1), default=40, help="that jobs run before memory is read")
    args = parser.parse_args()
    finish("head", measure(args.jobs, args.seconds))


if __name__ == "__main__":
    main()
