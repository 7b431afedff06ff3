"""How well pairs of jobs that do not slow each other down are told from others, by what each uses alone.

    python -m benchmarks.packing_estimator

1,388 pairs that Lucid's authors measured on an RTX 3090 (ASPLOS'23). A pair is good where the mean of its two
speeds is at least 0.85 of running alone. Of the pairs that an estimator admits, `precision` are good; of the good
ones it admits `recall`. Ours is fitted without the pairs that it judges: five parts of pairs by chance, then each
model left out with all of its pairs. `recall` is told where the held-out pairs reach the precision that is asked
for. The figures named `nested` admit from a speed that pairs of the fit alone have chosen.

Peers are the authors' stored labels, which admit pairs whose sum is at most 2, the sum of GPU utilisations, and
the numbers that come with the package, which have seen none of these pairs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from coadapt.estimators.affinity import pair_speeds, sharing
from coadapt.estimators.affinity.labels import Whose, labels, mean_speeds
from coadapt.estimators.affinity.uses import GPU_UTIL
from coadapt.estimators.interpretable.table import Floats

from .harness import finish, needs, table
from .lucid_pairs import JOBS, PAIRS, LucidPairs, read

GOOD = 0.85
FOLDS = 5
G_SS = 2  # the sum of Sharing Scores up to which a pair is admitted
Bools = np.ndarray


def quality(admitted: Bools, good: Bools) -> tuple[float, float]:
    """Return (precision, recall)."""
    right = float((admitted & good).sum())
    return right / max(float(admitted.sum()), 1.0), right / float(good.sum())


def admitting_from(said: Floats, good: Bools, precision: float) -> float:
    """Return the lowest speed from which on at least this part of the pairs is good."""
    order = np.argsort(-said, kind="stable")
    part = np.cumsum(good[order]) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero(part >= precision)
    return float(said[order[enough[-1]]]) if len(enough) else np.inf


class Judged:
    """Foretells pairs that a fit has not seen."""

    def __init__(self, lucid: LucidPairs) -> None:
        self.pairs = lucid.pairs
        self.a, self.b = lucid.pairs.pairs
        speeds = lucid.pairs.speeds
        self.mean = (speeds[self.a, self.b] + speeds[self.b, self.a]) / 2
        self.good = self.mean >= GOOD

    def said(self, taught: Bools, judged: Bools) -> Floats:
        """Return (judged,) mean speeds of pairs, by a fit to others."""
        speeds = pair_speeds.fit(self.pairs, np.flatnonzero(taught))
        return speeds.both(self.pairs.uses[self.a[judged]], self.pairs.uses[self.b[judged]])

    def within(self, parts: Iterator[Bools], precision: float) -> tuple[Floats, Floats, Bools]:
        """Return mean speeds, where each is admitted from, and whether good, of pairs that parts hold out.

        Where pairs are admitted from is chosen by pairs of the fit, held out in five parts among themselves.
        """
        said, bounds, good = list[Floats](), list[Floats](), list[Bools]()
        for held in parts:
            rest = np.flatnonzero(~held)
            inner, seen = np.empty(len(rest)), np.random.default_rng(1).integers(0, FOLDS, len(rest))
            for part in range(FOLDS):
                taught, judged = np.zeros_like(held), np.zeros_like(held)
                taught[rest[seen != part]] = judged[rest[seen == part]] = True
                inner[seen == part] = self.said(taught, judged)
            said.append(self.said(~held, held))
            bounds.append(np.full(held.sum(), admitting_from(inner, self.good[rest], precision)))
            good.append(self.good[held])
        return np.concatenate(said), np.concatenate(bounds), np.concatenate(good)


def by_chance(count: int) -> Iterator[Bools]:
    fold = np.random.default_rng(0).integers(0, FOLDS, count)
    yield from (fold == one for one in range(FOLDS))


def tree_accuracies(lucid: LucidPairs) -> dict[str, float]:
    """Return parts of right labels, each job left out once, and of the fit itself."""
    known = ~np.isnan(mean_speeds(lucid.pairs))
    uses, found = lucid.pairs.uses, dict[str, float]()
    targets = {"stored": (lucid.stored, np.ones(len(uses), bool))}
    for whose in Whose:
        targets[f"rule_{whose}"] = labels(mean_speeds(lucid.pairs, whose)), known
    for name, (wanted, of) in targets.items():
        rows, scores = uses[of], wanted[of]
        left_out = [
            sharing.fit(np.delete(rows, i, 0), np.delete(scores, i)).of(rows[i : i + 1])[0]
            for i in range(len(rows))
        ]
        found[f"tree_accuracy_{name}"] = float((np.array(left_out) == scores).mean())
        found[f"tree_accuracy_{name}_fit"] = float((sharing.fit(rows, scores).of(rows) == scores).mean())
    found["stored_labels_as_the_rule"] = float(
        (lucid.stored[known] == labels(mean_speeds(lucid.pairs))[known]).mean()
    )
    found["default_tree_on_stored"] = float((sharing.default().of(uses) == lucid.stored).mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    needs(PAIRS, JOBS)
    lucid = read()
    judged = Judged(lucid)
    a, b, good = judged.a, judged.b, judged.good
    said, bounds, seen_good = judged.within(by_chance(len(a)), 0.98)
    ends = lucid.models[np.stack([a, b])]
    by_model, model_bounds, model_good = judged.within(
        ((ends == model).any(axis=0) for model in sorted(set(ends.ravel()))), 0.97
    )
    utils = lucid.pairs.uses[:, GPU_UTIL]
    default, scores = pair_speeds.default(), sharing.default().of(lucid.pairs.uses)
    by_default = default.both(lucid.pairs.uses[a], lucid.pairs.uses[b])
    rows = {
        "pair speeds, five parts of pairs, where 0.98 are good": quality(
            said >= admitting_from(said, seen_good, 0.98), seen_good
        ),
        "the same, from where the pairs of the fit say": quality(said >= bounds, seen_good),
        "a whole model left out, where 0.97 are good": quality(
            by_model >= admitting_from(by_model, model_good, 0.97), model_good
        ),
        "the same, from where the other models say": quality(by_model >= model_bounds, model_good),
        "stored labels": quality(lucid.stored[a] + lucid.stored[b] <= G_SS, good),
        "sum of GPU utilisations, 120 %": quality(utils[a] + utils[b] <= 1.2, good),
        "shipped pair speeds, from 0.85": quality(by_default >= GOOD, good),
        "shipped tree": quality(scores[a] + scores[b] <= G_SS, good),
    }
    table("Pairs of 1,388 that run at 0.85 or more together", ["estimator", "precision", "recall"],
          [[name, f"{of[0]:.4f}", f"{of[1]:.4f}"] for name, of in rows.items()])  # fmt: skip
    accuracies = tree_accuracies(lucid)
    table("Tree of Sharing Scores, part of labels that are right", ["labels", "right"],
          [[name, f"{value:.4f}"] for name, value in accuracies.items()])  # fmt: skip
    began = time.perf_counter()
    pair_speeds.fit(lucid.pairs)
    fit_s = time.perf_counter() - began
    (precision, recall), nested, lomo_at, lomo, stored, summed, shipped, tree = rows.values()
    order = np.concatenate([np.flatnonzero(held) for held in by_chance(len(a))])
    figures = {
        "precision": precision,
        "recall": recall,
        "precision_nested": nested[0],
        "recall_nested": nested[1],
        "recall_lomo": lomo_at[1],
        "precision_lomo_nested": lomo[0],
        "recall_lomo_nested": lomo[1],
        "speed_mae": float(np.abs(said - np.minimum(judged.mean, 1.0)[order]).mean()),
        "stored_labels_precision": stored[0],
        "stored_labels_recall": stored[1],
        "sum_of_utils_precision": summed[0],
        "sum_of_utils_recall": summed[1],
        "shipped_precision": shipped[0],
        "shipped_recall": shipped[1],
        "shipped_speed_mae": float(np.abs(by_default - np.minimum(judged.mean, 1.0)).mean()),
        "shipped_tree_precision": tree[0],
        "shipped_tree_recall": tree[1],
        **accuracies,
        "fit_s": fit_s,
    }
    finish("packing_estimator", {name: round(value, 4) for name, value in figures.items()})


if __name__ == "__main__":
    main()
