"""How long does a step take on up to 16 GPUs, by what one and two GPUs have shown?

    python -m benchmarks.two_gpu_speed

All measured placements of `sia` (six models, five GPU types) and `titan` (four models, two GPU types) are asked
for. A model of each (model, GPU type) knows the rows of one GPU, of two on one node and of two on two nodes, at
all local batch sizes. It predicts all rows of 3 to 16 GPUs whose local batch size was measured on so few.

* *formula*: UniSched's Equation 2 at the row's own local batch size (`estimators/two_speeds.py`);
* *house*: the throughput model of the house, fitted once (`estimators/throughput.py`).

`share_underestimated`: rows that took longer than predicted; the paper counts on few, as deadlines depend on it.
`share_above_high`: rows that took longer than the upper end of the band of 80 %, with which deadlines are planned.
"""

from __future__ import annotations

import csv
import io
import math
import tarfile
from collections.abc import Iterator

import numpy as np
from coadapt.estimators.predictor import EXTRAPOLATION_ERROR, Z
from coadapt.estimators.profile import Profile
from coadapt.estimators.throughput import fit, spread_of, step_time_s
from coadapt.estimators.two_speeds import TwoSpeeds

from .harness import DATA, finish, needs, table
from .measured_profiles import GPU_TYPES, PARAMETERS, measured

TITAN = DATA / "titan" / "foundation_model_profiles_A100_V100.tar.xz"
KNOWN_GPUS = 2


def of_titan() -> Iterator[tuple[str, str, Profile]]:
    """Return (model, GPU type, profile) of the foundation models."""
    needs(TITAN)
    with tarfile.open(TITAN) as archive:
        for member in archive:
            *_, gpu_type, name = member.name.split("/")
            file = archive.extractfile(member) if name.endswith("_placements.csv") else None
            if file is None:
                continue
            rows = list(csv.DictReader(io.TextIOWrapper(file)))
            shapes = [[int(digit) for digit in row["placement"]] for row in rows]
            step = np.array([float(row["step_time"]) for row in rows])
            yield (
                name.removesuffix("_placements.csv"),
                gpu_type.lower(),
                Profile(
                    nodes=np.array([len(shape) for shape in shapes]),
                    replicas=np.array([sum(shape) for shape in shapes]),
                    local_bsz=np.array([int(row["local_bsz"]) for row in rows]),
                    accumulation=np.zeros(len(rows), np.int64),
                    step_time_s=step,
                    sync_time_s=np.clip([float(row["sync_time"]) for row in rows], 0.0, step),
                    count=np.ones(len(rows), np.int64),
                    densest=np.array([max(shape) for shape in shapes]),
                ),
            )


def of_sia() -> Iterator[tuple[str, str, Profile]]:
    for model in (*PARAMETERS, "ncf"):
        for gpu_type in GPU_TYPES:
            yield model, gpu_type, measured(model, gpu_type).profile


def by_formula(known: Profile, asked: Profile) -> np.ndarray:
    """Return (rows,) seconds by Equation 2; nan where its three measurements are not all there."""
    found = np.full(len(asked), np.nan)
    for local_bsz in np.unique(asked.local_bsz).tolist():
        at = known.local_bsz == local_bsz
        kinds = [
            at & (known.replicas == gpus) & (known.nodes == nodes) for nodes, gpus in ((1, 1), (1, 2), (2, 2))
        ]
        times = [float(known.step_time_s[rows].mean()) if rows.any() else math.nan for rows in kinds]
        if math.isnan(times[2]):  # a GPU type of one node
            times[2] = times[1]
        if not any(map(math.isnan, times)):
            rows = asked.local_bsz == local_bsz
            found[rows] = TwoSpeeds.of(*times).step_time_s(asked.nodes[rows], asked.replicas[rows])
    return found


def main() -> None:
    rows, errors = [], {"formula": [], "house": []}
    above: list[np.ndarray] = []
    for source, sets in (("sia", of_sia()), ("titan", of_titan())):
        for model, gpu_type, profile in sets:
            few = profile.replicas <= KNOWN_GPUS
            known, asked = profile.select(few), profile.select(~few)
            formula = by_formula(known, asked)
            asked, formula = asked.select(~np.isnan(formula)), formula[~np.isnan(formula)]
            fitted = fit(known)
            columns = (asked.nodes, asked.replicas, asked.local_bsz, 0, asked.densest)
            house = step_time_s(fitted, *columns)
            high = house * math.exp(Z * math.hypot(spread_of(fitted, known), EXTRAPOLATION_ERROR))
            above.append(asked.step_time_s > high)
            row: list[object] = [source, model, gpu_type, len(asked)]
            for name, predicted in (("formula", formula), ("house", house)):
                errors[name].append(predicted / asked.step_time_s - 1)
                off = np.abs(errors[name][-1])
                row += [float(np.median(off)), float(off.mean()), float((errors[name][-1] < 0).mean())]
            rows.append(row)
    columns_shown = ["source", "model", "GPU type", "rows"]
    columns_shown += [f"{name}: {what}" for name in errors for what in ("median", "mean", "under")]
    table("relative error of a step on 3 to 16 GPUs, by one and two", columns_shown, rows)
    figures: dict[str, float | int] = {"placements": sum(map(len, above)), "sets": len(rows)}
    for name, found in errors.items():
        off, prefix = np.concatenate(found), "" if name == "house" else f"{name}_"
        figures[f"{prefix}median_rel_err"] = round(float(np.median(np.abs(off))), 3)
        figures[f"{prefix}mean_rel_err"] = round(float(np.abs(off).mean()), 3)
        figures[f"{prefix}share_underestimated"] = round(float((off < 0).mean()), 3)
    figures["mean_over_formula"] = round(figures["mean_rel_err"] / figures["formula_mean_rel_err"], 3)
    figures["share_above_high"] = round(float(np.concatenate(above).mean()), 3)
    finish("two_gpu_speed", figures)


if __name__ == "__main__":
    main()
