"""Commands that restart at other sizes, beside native jobs on one emulated cluster, against fixed sizes.

    python -m benchmarks.restart_elastic [--pace 1.0]

Six commands and six native jobs come one after the other. A command saves on SIGTERM, goes on from there, and says
how far it is in a file of JSON lines. It imports nothing of ours. A step takes as long as the GPU type and the
number of processes say. The same twelve jobs run twice: the commands with `sizes: [1, 2, 4]`, and then each at one
fixed size, as their users would have asked for. The native jobs are the same in both runs.

* `mean_jct_ratio`: mean job completion time of the commands, restarting over fixed; `all_jct_ratio`: of all jobs.
* `restarts`: of commands, how often they were started at another size.
* `steps_wrong`: steps that were made twice or not at all by commands, over both runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from coadapt.client.client import Client
from coadapt.core.job import JobSpec
from coadapt.core.schemas import JobRow
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.estimators.guessed_types import relative_speeds

from .harness import finish, table

CLUSTER = "1x a100:4, 2x t4:4"
ROUND_S = 5.0
APART_S = 6.0  # between two submissions
LIMIT_S = 600.0
STEPS = 400
# Seconds of each command on one t4, and the size that its user would have asked for.
COMMANDS = ((60.0, 1), (240.0, 4), (120.0, 2), (240.0, 2), (60.0, 2), (180.0, 1))
NATIVE_EPOCHS = (4, 10, 6, 4, 8, 6)
PROGRAM = """
import json, os, signal, sys, time

seconds, steps, speeds = float(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
folder, rank, world = os.environ["COADAPT_OUTPUT_DIR"], os.environ["RANK"], int(os.environ["WORLD_SIZE"])
saved = os.path.join(folder, "saved")
step = int(open(saved).read()) if os.path.exists(saved) else 0
stop = []
signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
step_s = seconds / steps / speeds.get(os.environ["COADAPT_GPU_TYPE"], 1.0) / world**0.9
while step < steps and not stop:
    time.sleep(step_s)
    step += 1
    if rank == "0":
        with open(os.path.join(folder, "steps"), "a") as file:
            file.write(f"{step}\\n")
        with open("status.jsonl", "a") as file:
            file.write(json.dumps({"step": step, "steps": steps}) + "\\n")
if stop and rank == "0":
    with open(saved, "w") as file:
        file.write(str(step))
"""
NATIVE = """
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import coadapt

torch.manual_seed(0)
x = torch.randn(2048, 16)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(int(sys.argv[1])):
    for inputs, target in loader:
        loss = nn.functional.cross_entropy(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    coadapt.report(loss=loss.item())
"""


def jobs(folder: Path, pace: float, *, elastic: bool) -> list[JobSpec]:
    """Return the twelve jobs in the order in which they come."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "command.py").write_text(PROGRAM)
    (folder / "native.py").write_text(NATIVE)
    common = {"working_dir": str(folder)}
    speeds = json.dumps({gpu_type: round(speed, 3) for gpu_type, speed in relative_speeds().items()})
    specs = []
    for n, ((seconds, gpus), epochs) in enumerate(zip(COMMANDS, NATIVE_EPOCHS, strict=True)):
        how = {"sizes": [1, 2, 4]} if elastic else {"elastic": False, "resources": {"gpus": gpus}}
        specs.append(
            JobSpec(
                name=f"command{n}",
                command=["python", "command.py", str(seconds * pace), str(STEPS), speeds],
                progress={"file": "status.jsonl"},
                training={"report_interval_s": 3.0},
                **common,
                **how,
            )
        )
        specs.append(
            JobSpec(
                name=f"native{n}",
                script="native.py",
                args=[str(epochs)],
                training={"max_batch_size": 1024, "report_interval_s": 3.0},
                resources={"max_gpus": 4},
                emulation={"time_scale": 0.5 / pace},
                **common,
            )
        )
    return specs


def play(folder: Path, pace: float, *, elastic: bool) -> tuple[list[JobRow], int]:
    """Run all jobs; return their last rows, and how many steps of commands were made twice or not at all."""
    settings = Settings(state_dir=str(folder / "state"), round_interval_s=ROUND_S, restart_cost_s=5.0)
    with local_cluster.cluster(CLUSTER, settings=settings) as client:
        ids = []
        for spec in jobs(folder / "work", pace, elastic=elastic):
            ids.append(client.submit(spec))
            time.sleep(APART_S)
        rows = ended(client, ids)
        wrong = sum(wrong_steps(client, row["id"]) for row in rows if row["name"].startswith("command"))
    return rows, wrong


def ended(client: Client, ids: Sequence[str]) -> list[JobRow]:
    with suppress(TimeoutError):
        client.wait(ids, timeout_s=LIMIT_S)
    return [row for row in client.list() if row["id"] in ids]


def wrong_steps(client: Client, job_id: str) -> int:
    """Count steps of a job that it made more than once or left out."""
    path = Path(client.describe(job_id)["outputs"]) / "steps"
    made = Counter(map(int, path.read_text().split())) if path.exists() else Counter[int]()
    return sum(made[step] != 1 for step in range(1, STEPS + 1))


def jct_s(rows: Sequence[JobRow], kind: str = "") -> float:
    """Return the mean job completion time of a kind of jobs."""
    return statistics.fmean(
        (row["finished_s"] or time.time()) - row["submitted_s"] for row in rows if row["name"].startswith(kind)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pace", type=float, default=1.0, help="factor of all jobs' lengths")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="coadapt-restart-"))
    try:
        restarting, wrong = play(folder / "restarting", arguments.pace, elastic=True)
        fixed, wrong_fixed = play(folder / "fixed", arguments.pace, elastic=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cells = [
        [a["name"], a["phase"], b["phase"], jct_s([a]), jct_s([b]), a["restarts"], b["restarts"]]
        for a, b in zip(restarting, fixed, strict=True)
    ]
    columns = ["job", "restarting", "fixed", "JCT, s", "JCT, s, fixed", "restarts", "restarts, fixed"]
    table("The same jobs, with commands that restart and with commands of fixed sizes", columns, cells)
    rows = [*restarting, *fixed]
    finish(
        "restart_elastic",
        {
            "jobs": len(restarting),
            "succeeded": sum(row["phase"] == "succeeded" for row in rows),
            "mean_jct_s": round(jct_s(restarting, "command"), 1),
            "fixed_mean_jct_s": round(jct_s(fixed, "command"), 1),
            "mean_jct_ratio": round(jct_s(restarting, "command") / jct_s(fixed, "command"), 3),
            "all_jct_ratio": round(jct_s(restarting) / jct_s(fixed), 3),
            "restarts": sum(row["restarts"] for row in restarting if row["name"].startswith("command")),
            "steps_wrong": wrong + wrong_fixed,
        },
    )
    return int(any(row["phase"] != "succeeded" for row in rows) or wrong + wrong_fixed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
