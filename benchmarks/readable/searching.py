"""What searching settings gains over the library's defaults and over chance, and how small trees become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from coadapt.estimators.durations.sums import NAMES
from coadapt.estimators.interpretable import additive_fit, tree_fit
from coadapt.estimators.interpretable.additive import AdditiveModel
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.search import folds, search
from coadapt.estimators.interpretable.table import Table
from coadapt.estimators.interpretable.tree import TreeModel
from coadapt.estimators.interpretable.tuning import TREES, Searching, performance, tuned_additive, tuned_tree

from ..harness import table
from .tasks import NAMES_OF_TASKS, Task, shipped, task

BUDGET, RANDOM_TRIALS, SEEDS = 30, 50, 10
MOST_TRIALS = 2 * RANDOM_TRIALS  # of ours; a goal that it has not reached then counts as reached there
LIBRARY = AdditiveSettings(bins=1024, pair_bins=64, interactions=10, learning_rate=0.04, bags=1, rounds=2000)
ADDITIVE_BUDGET = 8
SUMS = ("arrivals", "pairs", "diabetes", "breast_cancer")


def gain(without: float, with_search: float) -> float:
    """Return how much less the error is, as a share of that without the search (Table 5.6)."""
    return 1 - with_search / without if without > 0 else 0.0


def figures() -> dict[str, float]:
    found, rows = dict[str, float](), []
    for name in NAMES_OF_TASKS:
        of = task(name)
        plain = tree_fit.fit(of.taught, cost="impurity")
        tuned = tuned_tree(of.taught, Searching(BUDGET)).model
        assert isinstance(tuned, TreeModel)
        errors = [of.error(model.predict(of.judged.rows)) for model in (plain, tuned)]
        found[f"tree/bo_gain/{name}"] = gain(*errors)
        rows.append([name, *errors, found[f"tree/bo_gain/{name}"], plain.leaves, tuned.leaves])
    table("Trees: the library's defaults and searched settings", ["task", "default", "searched", "gain", "leaves",
          "leaves then"], rows)  # fmt: skip
    found["tree/bo_gain_median"] = float(np.median([found[f"tree/bo_gain/{name}"] for name in NAMES_OF_TASKS]))
    rows = []
    for name in SUMS:
        of = task(name)
        plain_sum = additive_fit.fit(of.taught, LIBRARY, tails=None)
        tuned_sum = tuned_additive(of.taught, Searching(ADDITIVE_BUDGET), LIBRARY).model
        errors = [_error(of, model) for model in (plain_sum, tuned_sum)]
        found[f"additive/bo_gain/{name}"] = gain(*errors)
        rows.append([name, *errors, found[f"additive/bo_gain/{name}"]])
    table("Sums: interpret's defaults with one bag, and searched settings",
          ["task", "default", "searched", "gain"], rows)  # fmt: skip
    found["additive/bo_gain_median"] = float(np.median([found[f"additive/bo_gain/{name}"] for name in SUMS]))
    return found | pruned()


def _error(of: Task, model: AdditiveModel) -> float:
    said = model.classified if of.taught.classes else model.predict
    return of.error(said(of.judged.rows))


def trials() -> dict[str, float]:
    """Return the trials until the search is as good as chance after 50, over these, mean of ten seeds."""
    of = task("durations").taught
    of = of.of(np.arange(len(of.target)) % 6 == 0)
    parts = list(folds(of, 3))
    scale, grown = float(np.var(of.target)), dict[tuple[int, int], TreeModel]()

    def objective(point: dict[str, float]) -> float:
        scores = []
        for fold, (taught, held) in enumerate(parts):
            key = (fold, int(point["least_rows"]))
            if key not in grown:
                grown[key] = tree_fit.grow(of.of(taught), least_rows=key[1])
            scores.append(performance(grown[key].pruned(point["alpha"] * scale), of.of(held)))
        return float(np.mean(scores))

    needed = []
    for seed in range(SEEDS):
        chance = search(objective, TREES, RANDOM_TRIALS, seed=1000 + seed, chance=True)
        goal = chance.best.score
        by_chance = 1 + next(i for i, trial in enumerate(chance.trials) if trial.score >= goal)
        ours = search(objective, TREES, MOST_TRIALS, seed=seed)
        reached = next((i + 1 for i, trial in enumerate(ours.trials) if trial.score >= goal), MOST_TRIALS)
        needed.append((reached, by_chance))
    table("Trials until the best of 50 of chance", ["seed", "search", "chance itself"],
          [[seed, *one] for seed, one in enumerate(needed)])  # fmt: skip
    return {
        "bo_trials_over_random": float(np.mean([one for one, _ in needed]) / RANDOM_TRIALS),
        "bo_seeds_not_reached_in_50": float(sum(one > RANDOM_TRIALS for one, _ in needed)),
        "bo_trials_over_when_chance_found_it": float(
            np.sum([o for o, _ in needed]) / np.sum([c for _, c in needed])
        ),
    }


def pruned() -> dict[str, float]:
    """Return how many nodes searching leaves of a tree of classes, and what that costs in right answers."""
    long_jobs, of_like = task("durations"), list(NAMES).index("start_log")

    def classes(of: Table) -> Table:
        logs = of.target + of.rows[:, of_like]
        return replace(of, target=(logs > np.log(900.0)).astype(float), classes=("short", "long"))

    parts = {
        "durations": (classes(long_jobs.taught), classes(long_jobs.judged)),
        **{name: (shipped(name).taught, shipped(name).judged) for name in ("digits", "breast_cancer")},
    }
    found, rows = dict[str, float](), []
    for name, (taught, judged) in parts.items():
        plain, tuned = tree_fit.fit(taught, cost="impurity"), tuned_tree(taught, Searching(BUDGET)).model
        assert isinstance(tuned, TreeModel)
        right = [performance(model, judged) for model in (plain, tuned)]
        rows.append([name, plain.nodes, tuned.nodes, *right])
        found |= {
            f"pruned_nodes_ratio/{name}": tuned.nodes / plain.nodes,
            f"pruned_right_gain/{name}": right[1] - right[0],
        }
    table("Nodes of trees of classes", ["task", "nodes", "searched", "right", "right then"], rows)
    found["pruned_nodes_ratio"] = found["pruned_nodes_ratio/durations"]
    return found
