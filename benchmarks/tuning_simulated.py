"""Studies in virtual time, against the same trials by Ray Tune: ResNet-18 on CIFAR-10, as Hydro's authors had it.

    python -m benchmarks.tuning_simulated [--seeds 3] [--trials 1000]

Times and memory of groups are those of `simulator/studies/fusion_profile.py`, accuracies those of `response.py`.
A trial by Ray Tune has a GPU to itself, at full width. A study's makespan holds starts, compiling and the target.

* resnet18/random_1000: every trial is trained for 100 epochs, on 8 GPUs. The best trial's target follows.
* resnet18/asha_1000: ASHA with grace 3 and reduction 3, on 4 GPUs, without merging. /merged: with it.
* .../promote_3: the best three are trained at full width, rather than the best one as by the thesis.
* ablations of random_1000: shrink_only (no fusion), fuse_only (full width), and each width.
* artifact_50: the authors' 50 trials on 4 GPUs with their accuracies, in groups as large as theirs, against their
  makespans of 3,962 s and 1,418 s; and top1_regret, in points, of the best three promoted straight to full width.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from coadapt.simulator.studies.fusion_profile import FusionProfile
from coadapt.simulator.studies.pool import Pool, StudyOutcome, Ways
from coadapt.simulator.studies.ray_tune import RayOutcome, ray_tune
from coadapt.simulator.studies.response import Response, key_of
from coadapt.tuning.proposals import propose
from coadapt.tuning.rungs import best_first
from coadapt.tuning.study_file import StudyFile, from_values

from .arguments import at_least
from .harness import DATA, finish, needs, table

RAY_S, HYDRO_S = 3962.0, 1418.0  # makespans of the authors' 50 trials
SPACE: dict[str, Any] = {
    "lr": {"log": [1e-4, 1.0], "step": 1e-4},
    "momentum": {"uniform": [0.5, 0.999], "step": 1e-3},
    "gamma": {"uniform": [0.01, 0.9], "step": 0.01},
    "batch_size": 256,
}
ASHA = {"asha": {"grace": 3, "reduction": 3}}
Trials = Sequence[Mapping[str, Any]]
ALL_WAYS = Ways()
# In the authors' 50 trials an epoch took less than in their profile. Factors by batch size, of (one wide trial,
# a narrow group of 8 or 9), from the medians of whole trials without their start.
OF_50_TRIALS = FusionProfile(by_batch={128: (1.26, 1.745), 256: (0.871, 0.94), 512: (0.815, 0.824)})


def study_of(trials: int, seed: int, **fields: Any) -> StudyFile:
    """Return a study as in the thesis: the best trial is promoted straight to full width."""
    base = {"name": "r", "job": "resnet18.yaml", "space": SPACE, "metric": "val_acc", "mode": "max", "epochs": 100}
    return from_values({**base, "trials": trials, "seed": seed, "widths": [1], "promote": 1, **fields})


class Runs:
    """Studies and what Ray Tune takes for the same trials, by name, for each seed."""

    def __init__(self, trials: int, seeds: int) -> None:
        self.trials, self.seeds, self.profile = trials, seeds, FusionProfile()
        self.rows: list[list[object]] = []
        self.figures: dict[str, float] = {}

    def add(self, name: str, gpus: int, ways: Ways = ALL_WAYS, shrink: int = 8, **fields: Any) -> None:
        asha = "algorithm" in fields
        fields = {"algorithm": "random", "shrink": shrink, **fields} | ({"widths": None} if shrink == 1 else {})
        speedups, losses, ours, theirs = [], [], [], []
        for seed in range(self.seeds):
            response = Response(seed)
            trials, ray = self.ray(seed, gpus, asha)
            outcome = Pool(study_of(self.trials, seed, **fields), gpus, self.profile, response, ways).play()
            assert [dict(one) for one in trials] == outcome.state.trials
            speedups.append(ray.makespan_s / outcome.makespan_s)
            losses.append(100 * (ray.metric - outcome.metric))
            ours.append(outcome.makespan_s)
            theirs.append(ray.makespan_s)
        found = {
            "speedup": float(np.mean(speedups)),
            "makespan_s": float(np.mean(ours)),
            "ray_s": float(np.mean(theirs)),
            "lost_points": float(np.mean(losses)),
        }
        self.rows.append([name, gpus, found["ray_s"], found["makespan_s"], found["speedup"], found["lost_points"]])
        self.figures |= {f"resnet18/{name}/{key}": round(value, 3) for key, value in found.items()}

    def ray(self, seed: int, gpus: int, asha: bool) -> tuple[Trials, RayOutcome]:
        study = study_of(self.trials, seed)
        trials = propose("random", study.searched(), "max", seed, [], self.trials)
        rungs = (3, 3) if asha else None
        return trials, ray_tune(trials, 100, gpus, self.profile, Response(seed), rungs)

    def shrink_only(self, gpus: int) -> None:
        """Each narrow trial has a GPU to itself; the target follows."""
        found = []
        for seed in range(self.seeds):
            trials, ray = self.ray(seed, gpus, False)
            alone = ray_tune(trials, 100, gpus, self.profile, Response(seed), shrink=8)
            found.append(ray.makespan_s / (alone.makespan_s + 100 * self.profile.epoch_s(1, 1)))
        self.figures["resnet18/random_1000/shrink_only/speedup"] = round(float(np.mean(found)), 3)
        self.rows.append(["random_1000/shrink_only", gpus, "", "", float(np.mean(found)), ""])


def read(name: str) -> list[dict[str, str]]:
    with (DATA / "hydro" / name).open() as file:
        return list(csv.DictReader(file))


def values_of(row: Mapping[str, str]) -> dict[str, Any]:
    found = {name: round(float(row[name]), 6) for name in ("lr", "momentum", "gamma")}
    return {**found, "batch_size": int(row["batch_size"])}


def artifact(figures: dict[str, float]) -> list[list[object]]:
    """Return rows of the authors' 50 trials: theirs and ours."""
    wide = {key_of(values_of(row)): float(row["val_acc"]) for row in read("artifact_ray_50.csv")}
    narrow = {
        key_of(values_of(row)): float(row["val_acc"])
        for row in read("artifact_hydro_50.csv")
        if row["SCALING_N"] == "8"
    }
    trials = [values_of(row) for row in read("artifact_ray_50.csv")]
    response = Response(known={key: {1: wide[key], 8: narrow[key]} for key in wide})
    profile = OF_50_TRIALS
    space = {
        "lr": {"log": [1e-4, 1.0]},
        "momentum": {"uniform": [0.5, 0.999]},
        "gamma": {"uniform": [0.01, 0.9]},
        "batch_size": {"choice": [128, 256, 512]},
    }

    def play(ways: Ways, **fields: Any) -> StudyOutcome:
        study = study_of(50, 0, space=space, epochs=50, algorithm="random", **fields)
        return Pool(study, 4, profile, response, ways, trials).play()

    ray = ray_tune(trials, 50, 4, profile, response)
    # They trained two targets, and split no group.
    theirs = play(Ways(merge=False, compiles=False, elastic=False, splits=False), fuse=9, promote=2)
    ours = play(Ways(), promote=3)
    best = 100 * max(wide.values())

    def regret(count: int) -> float:
        order = best_first({i: narrow[key_of(one)] for i, one in enumerate(trials)}, "max")
        return best - 100 * max(wide[key_of(trials[i])] for i in order[:count])

    errors = [abs(ray.makespan_s / RAY_S - 1), abs(theirs.makespan_s / HYDRO_S - 1)]
    figures |= {
        "artifact_50/ray_s": round(ray.makespan_s, 1),
        "artifact_50/hydro_s": round(theirs.makespan_s, 1),
        "artifact_50/rel_err": round(max(errors), 4),
        "artifact_50/ours_s": round(ours.makespan_s, 1),
        "artifact_50/ours_speedup": round(ray.makespan_s / ours.makespan_s, 3),
        "artifact_50/top1_regret": round(best - 100 * ours.metric, 3),
        "artifact_50/best_alone_regret": round(regret(1), 3),
    }
    return [
        ["Ray Tune", RAY_S, ray.makespan_s, errors[0], 0.0],
        ["groups as theirs, the best two", HYDRO_S, theirs.makespan_s, errors[1], best - 100 * theirs.metric],
        ["groups by memory, the best three", "", ours.makespan_s, "", best - 100 * ours.metric],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=3)
    parser.add_argument("--trials", type=at_least(50), default=1000)
    options = parser.parse_args()
    needs(DATA / "hydro")
    runs = Runs(options.trials, options.seeds)
    runs.add("random_1000", 8)
    runs.add("random_1000/promote_3", 8, promote=3)
    runs.add("random_1000/not_compiled", 8, Ways(compiles=False))
    runs.shrink_only(8)
    runs.add("random_1000/fuse_only", 8, shrink=1)
    for shrink in (2, 4, 16):
        runs.add(f"random_1000/shrink_{shrink}", 8, shrink=shrink)
    runs.add("asha_1000", 4, Ways(merge=False), algorithm=ASHA)
    runs.add("asha_1000/merged", 4, algorithm=ASHA)
    runs.add("asha_1000/promote_3", 4, algorithm=ASHA, promote=3)
    runs.add("asha_1000/not_compiled", 4, Ways(compiles=False), algorithm=ASHA)
    columns = ["study", "GPUs", "Ray Tune, s", "ours, s", "speed-up", "points lost"]
    table(f"ResNet-18, {options.trials} trials, mean of {options.seeds} seeds", columns, runs.rows)
    rows = artifact(runs.figures)
    table("The authors' 50 trials on 4 GPUs", ["", "theirs, s", "simulated, s", "error", "points lost"], rows)
    finish("tuning_simulated", runs.figures, "virtual time; A100 of 80 GiB")


if __name__ == "__main__":
    main()
