"""Fits the numbers of pair speeds and Sharing Scores that come with the package, to Gavel's pairs.

    python -m benchmarks.fit_pair_speeds
    python -m benchmarks.fit_pair_speeds --write

`--write` renews estimators/affinity/pair_speeds.json and sharing_score.json. Without it nothing is written. The
figures say how well pairs are foretold that the fit had not seen.
"""

from __future__ import annotations

import argparse

import numpy as np
from coadapt.estimators.affinity import pair_speeds, sharing
from coadapt.estimators.affinity.pair_speeds import FEATURES, NAMES, PairSpeeds
from coadapt.estimators.interpretable import model_file
from coadapt.estimators.interpretable.additive import AdditiveModel, Term
from coadapt.estimators.interpretable.model_file import Kept

from .gavel_pairs import GAVEL, Curve, GavelPairs, parts_and_curve, read
from .harness import finish, needs, table

SOURCE = "pairs of Gavel (OSDI'20, MIT licence), simulation_throughputs.json; python -m benchmarks.fit_pair_speeds"
EDGES = np.round(np.arange(0.05, 2.0, 0.05), 2)  # of the sum of both GPU utilisations
FOLDS = 5


def model_of(curve: Curve, parts: np.ndarray, pairs: GavelPairs) -> PairSpeeds:
    """Return the curve as an additive model of one term; where nothing is known, the mean speed of all pairs."""
    sums = parts[pairs.a] + parts[pairs.b]
    mean = float(pairs.speeds.mean())
    middles = np.concatenate([[EDGES[0] / 2], (EDGES[:-1] + EDGES[1:]) / 2, [EDGES[-1] + 0.025]])
    counts = np.bincount(np.digitize(sums, EDGES), minlength=len(middles)).astype(float)
    scores = np.round(np.concatenate([[0.0], curve.of(middles) - mean]), 4)
    term = Term((NAMES.index("both_gpu_util"),), (EDGES,), scores, np.concatenate([[0.0], counts]))
    return PairSpeeds(AdditiveModel(FEATURES, round(mean, 4), (term,), target="speed"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew the files of the package")
    options = parser.parse_args()
    needs(GAVEL)
    pairs = read()
    fold = np.random.default_rng(0).integers(0, FOLDS, len(pairs.a))
    errors = np.empty(len(fold))
    for one in range(FOLDS):
        held = pairs.of(fold == one)
        parts, curve = parts_and_curve(pairs.of(fold != one))
        errors[fold == one] = curve.of(parts[held.a] + parts[held.b]) - held.speeds.mean(axis=1)
    parts, curve = parts_and_curve(pairs)
    speeds = model_of(curve, parts, pairs)
    scores = sharing.fit_to_speeds(speeds)
    by_type = {kind: parts[[one[0] == kind for one in pairs.jobs]] for kind in ("v100", "p100", "k80")}
    rows = [
        [kind, len(of), float(of.min()), float(np.median(of)), float(of.max())] for kind, of in by_type.items()
    ]
    table("Parts of the GPU that Gavel's jobs fill", ["GPU type", "jobs", "least", "median", "most"], rows)
    sums = np.linspace(0, 2, 11)
    rows = [[float(a), float(b)] for a, b in zip(sums, curve.of(sums), strict=True)]
    table("Speed of each of two jobs", ["sum of parts", "speed"], rows)
    table("Sharing Score", ["rule"], [[rule.text] for rule in scores.rules()])
    if options.write:
        model_file.write(pair_speeds.DEFAULT, Kept(speeds.model, about={"source": SOURCE}))
        model_file.write(sharing.DEFAULT, Kept(scores.tree, about={"source": SOURCE}))
    finish(
        "fit_pair_speeds",
        {
            "pairs": len(pairs.a),
            "held_out_rmse": round(float(np.sqrt((errors**2).mean())), 4),
            "held_out_mae": round(float(np.abs(errors).mean()), 4),
            "mean_speed_mae": round(float(np.abs(pairs.speeds.mean(axis=1) - pairs.speeds.mean()).mean()), 4),
        },
    )


if __name__ == "__main__":
    main()
