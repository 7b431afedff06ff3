"""Groups of trials in the bubbles of a pipeline: simulated studies, and processes that share emulated GPUs.

    python -m benchmarks.bubbles [--iterations 120] [--seeds 3] [--only simulated,emulated]

Simulated: a study of ResNet-18 with one GPU of its own, with and without the bubbles of a GPT on 32 A100 (eight
pipelines of four stages), as in Hydro, section 3.6.5. In bubbles a group has 15 % of its speed, as measured there.

* makespan_ratio: without bubbles over with them; 1,000 random trials. asha_1000/, random_200/, asha_200/: others.
* full/makespan_ratio: 200 random trials where no stage leaves memory: nothing changes.

Emulated: four processes train by PyTorch's 1F1B, each on an emulated GPU that it shares with a group of trials in
a process of its own. A kernel takes its time, and longer while another process' runs; all kernels are taken down.

* overlap_s: how long kernels of both ran at once. naive_overlap_s: the same without the gate.
* owner_slowdown, naive_slowdown: iterations of the pipeline over those alone, less one. late_part: time that the
  pipeline waited for guests, of all.
* guest_part: steps of the groups over those on GPUs of their own. idle_part: how long stages wait.
* sizes: different numbers of trials of a group among the stages. refused: 1 if a trial too large was refused.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.core.one_f_one_b import OneForwardOneBackward
from coadapt.estimators.affinity import pair_speeds
from coadapt.executor.training.bubbles import guest
from coadapt.executor.training.bubbles.gate import Gate
from coadapt.simulator.studies.bubbles import places
from coadapt.simulator.studies.fusion_profile import FusionProfile
from coadapt.simulator.studies.pool import Pool
from coadapt.simulator.studies.response import Response
from coadapt.tuning.planner import GroupMemory

from .arguments import at_least
from .harness import finish, table
from .tuning_simulated import ASHA, study_of

SCRIPTS = Path(__file__).parent / "scripts"
GPT = OneForwardOneBackward(4, 8, 0.05, 0.1)
REPLICAS, GPU_GIB, WEIGHTS_GIB, ACTIVATIONS_GIB = 8, 80.0, 40.0, 6.0
# The pipeline on emulated GPUs: 10 ms forward, 20 ms backward; each GPU has 16 GiB.
PACED = OneForwardOneBackward(4, 8, 0.010, 0.020)
SMALL_GIB, SMALL_WEIGHTS_GIB, SMALL_ACTIVATIONS_GIB = 16.0, 8.0, 1.5
ONE_GIB, TWO_GIB = 1.0, 1.4
LAYER_MS, LAYER_EACH_MS = 0.4, 0.05  # of a layer's forward pass: of a group, and for each of its trials
UTILISATION = 0.95, 0.6  # of the pipeline's and the group's kernels, while they run
CAP_S = 300.0
Run = list[float]


def simulated(seeds: int) -> tuple[dict[str, float], list[list[object]]]:
    """Return figures and rows of studies with and without bubbles."""
    figures, rows = dict[str, float](), list[list[object]]()
    cases: list[tuple[str, int, Any, float]] = [
        ("", 1000, "random", WEIGHTS_GIB),
        ("random_200/", 200, "random", WEIGHTS_GIB),
        ("asha_1000/", 1000, ASHA, WEIGHTS_GIB),
        ("asha_200/", 200, ASHA, WEIGHTS_GIB),
        ("full/", 200, "random", GPU_GIB),
    ]
    for name, trials, algorithm, weights_gib in cases:
        stages = places(GPT, REPLICAS, GPU_GIB, weights_gib, ACTIVATIONS_GIB)
        took_s: list[tuple[float, float]] = []
        for seed in range(seeds):
            both = []
            for bubbles in ((), stages):
                study = study_of(trials, seed, algorithm=algorithm, shrink=8)
                both.append(Pool(study, 1, FusionProfile(), Response(seed), bubbles=bubbles).play())
            assert both[0].trial == both[1].trial or both[1].metric >= both[0].metric - 0.005
            took_s.append((both[0].makespan_s, both[1].makespan_s))
        ratio = float(np.mean([without / with_them for without, with_them in took_s]))
        figures[f"{name}makespan_ratio"] = round(ratio, 3)
        means = [float(np.mean(column)) for column in zip(*took_s, strict=True)]
        rows.append([name.rstrip("/") or "random_1000", *means, ratio])
    return figures, rows


class Emulated:
    """Runs of a pipeline on emulated GPUs, with and without guests."""

    def __init__(self, iterations: int) -> None:
        self.iterations, self.root = iterations, Path(tempfile.mkdtemp(prefix="bubbles-"))
        self.free_gib = [
            place.gib or 0.0 for place in places(PACED, 1, SMALL_GIB, SMALL_WEIGHTS_GIB, SMALL_ACTIVATIONS_GIB)
        ]
        self.sizes = [GroupMemory(ONE_GIB, TWO_GIB, gib).most for gib in self.free_gib]
        owner, other = ([[one, np.nan, np.nan, np.nan]] for one in UTILISATION)
        found = pair_speeds.default().of(np.array(owner), np.array(other))
        back = pair_speeds.default().of(np.array(other), np.array(owner))
        self.beside = float(np.ravel(found)[0]), float(np.ravel(back)[0])

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def play(
        self, name: str, lends: bool, guests: bool
    ) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """Run the pipeline to its end; return what its stages and the groups have left."""
        folder = self.root / name
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        owners = [
            self._start(
                "bubble_owner.py",
                [
                    *(folder, self.iterations, PACED.micro_batches),
                    *(1000 * PACED.forward_s, 1000 * PACED.backward_s),
                    *("lends" if lends else "keeps", self.beside[0], self.free_gib[stage]),
                ],
                RANK=stage,
                WORLD_SIZE=PACED.stages,
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
            )
            for stage in range(PACED.stages)
        ]
        started = []
        if guests:
            _wait_for(lambda: (folder / "iterations-0").exists(), "the pipeline's first iteration")
            started = [self.guest(folder, stage, lends) for stage in range(PACED.stages)]
        for process in owners:
            _end(process)
        (folder / "stop").touch()
        for process in started:
            _end(process)
        told = [json.loads((folder / f"owner-{stage}.json").read_text()) for stage in range(PACED.stages)]
        left = [json.loads((folder / f"guest-{stage}.json").read_text()) for stage in range(len(started))]
        return told, left

    def guest(
        self, folder: Path, stage: int, gated: bool, needs_gib: float | None = None
    ) -> subprocess.Popen[str]:
        """Start the group of a stage."""
        trials = self.sizes[stage]
        gib = ONE_GIB + (trials - 1) * (TWO_GIB - ONE_GIB) if needs_gib is None else needs_gib
        gate = {guest.NAME: f"{folder.name}-{stage}", guest.MEMORY: gib} if gated else {}
        layer_ms = LAYER_MS + LAYER_EACH_MS * trials
        values = json.dumps([{"lr": 0.1 / 2**trial} for trial in range(trials)])
        words = [folder, stage, layer_ms, self.beside[1]]
        return self._start("bubble_guest.py", words, COADAPT_HYPERPARAMETERS=values, **gate)

    def alone(self, seconds: float) -> list[float]:
        """Return the steps per second of each stage's group on a GPU of its own."""
        folder = self.root / "alone-guests"
        folder.mkdir()
        started = [self.guest(folder, stage, False) for stage in range(PACED.stages)]
        _wait_for(lambda: len(list(folder.glob("ready-*"))) == PACED.stages, "groups to start")
        time.sleep(seconds)  # how long they are measured
        (folder / "stop").touch()
        for process in started:
            _end(process)
        left = [json.loads((folder / f"guest-{stage}.json").read_text()) for stage in range(PACED.stages)]
        return [one["steps"] / one["took_s"] for one in left]

    def refused(self) -> int:
        """Return 1 if a trial that is larger than what its stage leaves is refused, in a sentence that says so."""
        folder = self.root / "refused"
        folder.mkdir()
        stage = 0
        owner = Gate(f"{folder.name}-{stage}")
        owner.own(self.free_gib[stage])
        process = self.guest(folder, stage, True, needs_gib=self.free_gib[stage] + 1)
        _, told = process.communicate(timeout=CAP_S)
        owner.path.unlink()
        return int(process.returncode != 0 and "and the owner of" in told)

    def _start(self, script: str, words: Sequence[object], **variables: object) -> subprocess.Popen[str]:
        env = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in variables.items()}}
        command = [sys.executable, str(SCRIPTS / script), *(str(word) for word in words)]
        return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def _wait_for(there: Any, what: str) -> None:
    deadline_s = time.monotonic() + CAP_S
    while not there():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"bubbles: waited {CAP_S:.0f} s for {what}")
        time.sleep(0.05)  # between looks


def _end(process: subprocess.Popen[str]) -> None:
    _, told = process.communicate(timeout=CAP_S)
    if process.returncode:
        raise SystemExit(f"bubbles: {told[-2000:]}")


def overlap_s(one: Sequence[Run], other: Sequence[Run]) -> float:
    """Return for how long intervals of both lists lie over each other. Each list is in order of time."""
    found, at = 0.0, 0
    for began_s, ended_s in one:
        while at < len(other) and other[at][1] <= began_s:
            at += 1
        later = at
        while later < len(other) and other[later][0] < ended_s:
            found += min(ended_s, other[later][1]) - max(began_s, other[later][0])
            later += 1
    return found


def _iteration_s(owners: Sequence[Mapping[str, Any]], first: int) -> float:
    return statistics.median(seconds for one in owners for seconds in one["took_s"][first:])


def emulated(iterations: int) -> tuple[dict[str, float], list[list[object]]]:
    """Return figures and rows of processes that share emulated GPUs."""
    world = Emulated(iterations)
    try:
        # What is compared begins when groups train and their layers have been measured.
        first = iterations // 2
        alone, _ = world.play("alone", lends=False, guests=False)
        lent, groups = world.play("lent", lends=True, guests=True)
        naive, beside = world.play("naive", lends=False, guests=True)
        speeds = world.alone(seconds=5.0)
        refused = world.refused()
    finally:
        world.close()
    alone_s, lent_s, naive_s = (_iteration_s(one, first) for one in (alone, lent, naive))
    pairs = [(lent, groups), (naive, beside)]
    overlaps = [
        sum(overlap_s(owner["runs"], group["runs"]) for owner, group in zip(*pair, strict=True)) for pair in pairs
    ]
    parts = [
        [group["steps"] / group["took_s"] / speed for group, speed in zip(left, speeds, strict=True)]
        for left in (groups, beside)
    ]
    rows: list[list[object]] = [
        ["alone", alone_s, "", "", ""],
        ["in bubbles", lent_s, lent_s / alone_s - 1, overlaps[0], statistics.mean(parts[0])],
        ["naive", naive_s, naive_s / alone_s - 1, overlaps[1], statistics.mean(parts[1])],
    ]
    total_s = sum(sum(one["took_s"]) for one in lent)
    figures = {
        "overlap_s": overlaps[0],
        "naive_overlap_s": overlaps[1],
        "owner_slowdown": lent_s / alone_s - 1,
        "naive_slowdown": naive_s / alone_s - 1,
        "late_part": sum(one["late_s"] for one in lent) / total_s,
        "guest_part": statistics.mean(parts[0]),
        "guest_part_naive": statistics.mean(parts[1]),
        "idle_part": PACED.idle_part,
        "sizes": len(set(world.sizes)),
        "refused": refused,
    }
    return figures, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=at_least(20), default=120)
    parser.add_argument("--seeds", type=at_least(1), default=3)
    parser.add_argument("--only", default="simulated,emulated")
    asked = parser.parse_args()
    figures: dict[str, float] = {}
    if "simulated" in asked.only:
        found, rows = simulated(asked.seeds)
        figures |= found
        table("Studies with one GPU, s", ["study", "alone", "with bubbles", "ratio"], rows)
    if "emulated" in asked.only:
        found, rows = emulated(asked.iterations)
        figures |= found
        table("A pipeline of four stages", ["", "iteration, s", "slowdown", "overlap, s", "groups' speed"], rows)
    finish("bubbles", figures)


if __name__ == "__main__":
    main()
