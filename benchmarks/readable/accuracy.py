"""Accuracy beside peers at their defaults, and the schedule that each one's estimates make."""

from __future__ import annotations

import csv
import tempfile
import time
from pathlib import Path

import numpy as np
from coadapt.estimators.interpretable.table import Floats
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.jobs.lengths import Lengths as Told
from coadapt.simulator.replay import simulation, source_of

from ..harness import table
from ..qssf_replay import Ran, venus
from .fits import PEERS, additive, peer
from .tasks import NAMES_OF_TASKS, lengths, task

SEEDS = 3  # of fits to lengths: the order of jobs under `qssf` is chaotic, and one fit says little of it


def figures() -> dict[str, float]:
    """Return errors of ours and of the peers, how many are beaten, and times of schedules; means over seeds."""
    rows, found, jct_s = [], dict[str, float](), dict[str, list[float]]()
    for name in NAMES_OF_TASKS:
        of = task(name)
        errors, took_s = dict[str, float](), 0.0
        for who in ("ours", *PEERS):
            of_seeds = list[float]()
            for seed in range(SEEDS if name == "durations" else 1):
                began = time.perf_counter()
                fitted = additive(of.taught, of.settings, seed) if who == "ours" else peer(who, of.taught, seed)
                said = fitted(of.judged.rows)
                took_s = time.perf_counter() - began if who == "ours" else took_s
                of_seeds.append(of.error(said))
                if name == "durations":
                    jct_s.setdefault(who, []).append(schedule_jct_s(of.logs(said)))
            errors[who] = float(np.mean(of_seeds))
        beaten = sum(errors["ours"] < errors[other] for other in PEERS)
        rows.append([name, *errors.values(), beaten, took_s])
        found |= {f"{name}/{who}_error": error for who, error in errors.items()}
        found |= {f"{name}/beaten_peers": beaten, f"{name}/fit_s": took_s}
    table("Errors on rows that no fit has seen: mean absolute error, or share of wrong classes",
          ["task", "ours", *PEERS, "beaten", "fit, s"], rows)  # fmt: skip
    means = {who: float(np.mean(values)) for who, values in jct_s.items()}
    table("Mean JCT under qssf with these estimates, Venus, the last three tenths of September; each seed, mean",
          ["estimates", *(f"seed {seed}, s" for seed in range(SEEDS)), "mean, s"],
          [[who, *map(round, values), round(means[who])] for who, values in jct_s.items()])  # fmt: skip
    found |= {f"durations/qssf_jct_s_{who}": value for who, value in means.items()}
    found["durations/qssf_jct_over_best_peer"] = means["ours"] / min(means[other] for other in PEERS)
    over = [ours / min(jct_s[other][seed] for other in PEERS) for seed, ours in enumerate(jct_s["ours"])]
    return found | {"durations/qssf_jct_over_best_peer_of_a_seed_at_most": max(over)}


def schedule_jct_s(logs: Floats) -> float:
    """Return the mean JCT of the jobs that judge, under `qssf` with these logs of their lengths."""
    known, (workload, nodes) = lengths(), venus()
    assert known.table.times_s is not None
    ids = np.array(known.ids)[known.table.times_s > known.cut_s]
    chosen = np.isin(np.array(workload.ids), ids)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "estimates.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("job_id", "estimate_s"))
            writer.writerows(zip(ids.tolist(), np.exp(logs).tolist(), strict=True))
        under = Conditions(Timing(events=True), lengths=Told.ESTIMATED, estimates=path)
        part = workload.select(chosen)
        ran = Ran.of(simulation(part, nodes, "qssf", {}, source_of(False, None, nodes), under).run())
    return ran.figures()["mean_jct_s"]
