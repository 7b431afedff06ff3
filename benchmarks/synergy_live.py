"""CPUs for the jobs that gain by them: 12 jobs live under `proportional` and under `tune`, then simulated.

    python -m benchmarks.synergy_live [--out FOLDER] [--again FOLDER]

Two emulated nodes of 4 GPUs and 12 CPUs, half of what Synergy's servers have. Four jobs wait for images, and eight
train on text that one core prepares. A job of each kind is measured by a profile run before the others come, as
jobs of the same script are known then. Jobs last some minutes and arrive at once, under `fifo`. The recorded
submissions and starts are then simulated with the speeds that the emulated input has. A round waits some seconds
for what else happens, as tenths of seconds would decide who is beside whom.

* mean_jct_ratio: mean JCT under `proportional` over that under `tune`. simulated_ratio: the same, simulated.
* live_vs_simulated: the mean JCT simulated over the live one, less one, without its sign; the worse of both runs.
* jobs_lost: jobs that did not succeed. restarts: of all jobs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.client.client import Client
from coadapt.core.cluster import Cluster
from coadapt.core.job import JobSpec, Phase
from coadapt.core.placement import Placement
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.estimators.pace import Pace
from coadapt.estimators.sensitivity.table import SpeedGrid, TabulatedSensitivity
from coadapt.policies.catalogue import make_policy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.input_bound import InputBoundWorld
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.input_profiles import InputProfile, InputProfiles
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import TraceJob, Workload

from .harness import finish, table
from .input_runs import USUAL

CLUSTER, SHARE_CPUS, SHARE_GIB, MOST_GIB = "2x a100:4/12/250", 3, 62.5, 250.0
ROUND_S, EARLY_S, LOOK_S, CAP_S = 5.0, 4.0, 2.0, 900.0
SCRIPT = Path(__file__).parent / "scripts" / "input_bound.py"
BATCH, EPOCH = 20, 1200  # samples; a profile run needs some batches for each of 12 workers
CPUS = (1, 2, 3, 4, 5, 6, 9)
MECHANISMS = ("proportional", "tune")


@dataclass(frozen=True)
class Kind:
    """Jobs of one script. prepared: samples/s by `CPUS`. scale: by how much its GPU is faster than a real one."""

    prepared: tuple[float, ...]
    scale: float
    epochs: int

    @property
    def speeds(self) -> np.ndarray:
        """Samples/s by `CPUS`: the slower of the input and the GPU's step decides."""
        step_s = Pace.of(MODEL, "a100", self.scale).step_time_s(1, 1, BATCH, 0)
        return np.minimum(self.prepared, BATCH / step_s)


MODEL = "cifar10"  # whose GPU step the jobs have
KINDS = {
    "image": Kind((20, 39, 58, 76, 94, 110, 156), 0.3, 22),
    "text": Kind((400,) * len(CPUS), 0.1, 5),
}
JOBS = ("text", "text", "image") * 4


def spec(kind: str, folder: Path) -> JobSpec:
    """Return a job of a kind. All of a kind have the same arguments, as jobs of one script are known."""
    one = KINDS[kind]
    given = USUAL | {"samples": EPOCH, "batch": BATCH, "epochs": one.epochs, "sample_bytes": 100, "cached": False}
    written: dict[str, Any] = {
        "name": kind,
        "script": SCRIPT.name,
        "working_dir": str(folder / "job"),
        "args": [str(folder / kind), json.dumps(given)],
        "resources": {"gpus": 1},
        "training": {"adaptivity": "rigid", "report_interval_s": 5.0},
        "emulation": {
            "profile": MODEL,
            "time_scale": one.scale,
            "input": {"cpus": CPUS, "prepared": [rate / one.scale for rate in one.prepared]},
        },
    }
    return JobSpec.model_validate(written)


def run_live(mechanism: str, folder: Path, out: Path) -> None:
    """Run the jobs under a mechanism, and keep their trace and rows as files of `out`."""
    (folder / "job").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "job")
    for kind in KINDS:
        (folder / kind).mkdir()
    settings = Settings(
        state_dir=str(folder / "state"),
        policy="fifo",
        policy_options={"provisioning": mechanism},
        round_interval_s=ROUND_S,
        debounce_s=EARLY_S,
    )
    with local_cluster.cluster(CLUSTER, settings=settings) as client:
        for kind in KINDS:
            _measure(client, kind, folder, mechanism)
        ids = [client.submit(spec(kind, folder)) for kind in JOBS]
        _follow(client, ids)
        lines = [line for line in client.trace() if json.loads(line)["id"] in ids]
        rows = {row["id"]: dict(row) for row in client.list()}
    (out / f"{mechanism}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    kept = [rows[id] | {"kind": kind} for id, kind in zip(ids, JOBS, strict=True)]
    (out / f"{mechanism}.json").write_text(json.dumps(kept))


def _follow(client: Client, ids: Sequence[str]) -> None:
    """Wait for jobs to end, and print the CPUs of the image jobs when these change."""
    images, before = [id for id, kind in zip(ids, JOBS, strict=True) if kind == "image"], ""
    deadline_s = time.monotonic() + CAP_S
    while time.monotonic() < deadline_s:
        ended = {row["id"] for row in client.list() if Phase(row["phase"]).is_terminal}
        if ended.issuperset(ids):
            return
        cpus = {id: client.explain(id).get("cpus") for id in images if id not in ended}
        told = ", ".join(f"{id} has {count:g} CPUs" for id, count in cpus.items() if count)
        if told != before:
            print(f"{time.strftime('%H:%M:%S')} {told}", flush=True)
            before = told
        time.sleep(LOOK_S)  # between two looks, up to a limit


def _measure(client: Client, kind: str, folder: Path, mechanism: str) -> None:
    """Have a job of a kind measured, and end it before it trains for long."""
    job = client.submit(spec(kind, folder))
    deadline_s = time.monotonic() + CAP_S
    while client.describe(job)["phase"] in (Phase.SUBMITTED, Phase.PROFILING) and time.monotonic() < deadline_s:
        time.sleep(LOOK_S)  # between two looks, up to a limit
    for habit in client.describe(job)["habits"]:
        print(f"{time.strftime('%H:%M:%S')} {mechanism}, {kind}: {habit}", flush=True)
    client.cancel(job)
    client.wait([job], timeout_s=CAP_S)


class Started(InputBoundWorld):
    """Jobs that begin to train some time after they were given GPUs. Starts hardly depend on CPUs."""

    start_s: Mapping[str, float]

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        return self.start_s[self.workload.ids[job]]


def profiles() -> InputProfiles:
    """Return the speeds that the emulated nodes give the jobs."""
    memory = np.array([SHARE_GIB, MOST_GIB])
    found = {}
    for name, kind in KINDS.items():
        grid = SpeedGrid(np.array(CPUS, float), memory, np.stack([kind.speeds] * len(memory), axis=1))
        found[name] = InputProfile(TabulatedSensitivity({1: grid}), BATCH / float(kind.speeds[SHARE_AT]))
    return InputProfiles(found, SHARE_CPUS, SHARE_GIB)


SHARE_AT = CPUS.index(SHARE_CPUS)


def simulated(mechanism: str, out: Path) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return the rows of the live jobs, and (jobs,) their simulated completion times in s."""
    rows = json.loads((out / f"{mechanism}.json").read_text())
    trace = read_trace(out / f"{mechanism}.jsonl")
    submit_s = dict(zip(trace.ids, trace.submit_s.tolist(), strict=True))
    start_s = {id: model.start_s or 0.0 for id, model in zip(trace.ids, trace.models, strict=True) if model}
    jobs = [
        TraceJob(
            id=row["id"],
            submit_s=submit_s[row["id"]],
            application=row["kind"],
            duration_s=EPOCH * KINDS[row["kind"]].epochs / float(KINDS[row["kind"]].speeds[SHARE_AT]),
        )
        for row in rows
        if row["id"] in submit_s
    ]
    cluster: Cluster = read_cluster(CLUSTER).parts[""]
    world = Started(Workload.of(jobs), profiles(), cluster)
    world.start_s = start_s
    policy = make_policy("fifo", provisioning=mechanism)
    return rows, Engine(world, cluster, policy, Timing(ROUND_S, early_s=EARLY_S)).run().jct_s


def compared(out: Path) -> dict[str, Any]:
    """Print each job beside its simulation, and return the figures of both mechanisms."""
    live: dict[str, float] = {}
    told: dict[str, float] = {}
    lost = restarts = 0
    for mechanism in MECHANISMS:
        rows, jct_s = simulated(mechanism, out)
        ended = [row for row in rows if row["phase"] == Phase.SUCCEEDED]
        lost += len(rows) - len(ended)
        restarts += sum(row["restarts"] + row["evictions"] for row in rows)
        live_s = [row["finished_s"] - row["submitted_s"] for row in ended]
        table(
            f"Each job under {mechanism}, s",
            ["job", "waited and started", "JCT", "simulated", "off"],
            [
                [row["id"], row["started_s"] - row["submitted_s"], a, b, f"{b / a - 1:+.0%}"]
                for row, a, b in zip(ended, live_s, jct_s.tolist(), strict=True)
            ],
        )
        live[mechanism], told[mechanism] = float(np.mean(live_s)), float(jct_s.mean())
    off = {mechanism: abs(told[mechanism] / live[mechanism] - 1) for mechanism in MECHANISMS}
    share, tune = MECHANISMS
    return {
        "mean_jct_ratio": round(live[share] / live[tune], 3),
        "simulated_ratio": round(told[share] / told[tune], 3),
        "live_vs_simulated": round(max(off.values()), 4),
        **{f"{mechanism}/live_mean_jct_s": round(live[mechanism], 1) for mechanism in MECHANISMS},
        **{f"{mechanism}/simulated_mean_jct_s": round(told[mechanism], 1) for mechanism in MECHANISMS},
        "jobs_lost": lost,
        "restarts": restarts,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where traces and what became of their jobs are kept")
    parser.add_argument("--again", type=Path, help="only simulate what such a folder has kept")
    options = parser.parse_args()
    began_s = time.monotonic()
    if options.again is not None:
        compared(options.again)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="coadapt-synergy-"))
    out = options.out or folder / "out"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for mechanism in MECHANISMS:
            run_live(mechanism, folder / mechanism, out)
        figures = compared(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finish("synergy_live", figures | {"seconds": round(time.monotonic() - began_s, 1)})
    return int(bool(figures["jobs_lost"]))


if __name__ == "__main__":
    sys.exit(main())
