"""`sia` and `coadapt` with CPUs and memory by gain, on Sia's traces with jobs that wait for their input mixed in.

    python -m benchmarks.provisioned_goodput [--traces 1] [--waiting 0.3] [--processes 2]

Sia's cluster has for each GPU what Synergy's servers have: 3 CPUs and 62.5 GB. A drawn part of the image jobs,
`--waiting`, has the input of one of Synergy's image models that gain more than twofold. Speech jobs have that of
its speech models, all others that of its language models, which gain by no more than a CPU. Synergy measured on
V100s. So the input of a job is as fast as lets it wait on one V100 as the measured model did.

* {policy}/mean_jct_ratio: mean JCT under `priced` over that under `proportional`, means over traces; <= 0.9 asked.
* {policy}/{set}/mean_jct_ratio: the same on the traces of one set, by jobs per hour.
* {policy}/waiting_ratio, others_ratio: the same of jobs that gain by more than their share, and of the others.
* {policy}/restarts_ratio: restarts over those under `proportional`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from coadapt.estimators.sensitivity.model import Sensitivity
from coadapt.estimators.sensitivity.table import TabulatedSensitivity
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.derived import TASKS
from coadapt.simulator.jobs.applications import Application
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least
from .better_than_sia import SIA, name_of, traces_of
from .harness import finish, needs, table
from .synergy_runs import PROFILES, profiles

CLUSTER = "6x t4:4/12/250, 3x rtx:8/24/500, 2x a100:8/24/500"
SETS = ("philly", "saturn", "scale/rate_30", "scale/rate_40", "scale/rate_50")
POLICIES, MECHANISMS = ("sia", "coadapt"), ("proportional", "priced")
MEASURED_ON = "v100"  # by Synergy
SPEECH, IMAGE = ("deepspeech2",), ("cifar10", "imagenet", "yolov3")  # Sia's applications; the rest is language
MODELS = {**TASKS, "image": ("alexnet", "res18", "shufflenet")}


@dataclass(frozen=True)
class Asked:
    """One run."""

    trace: Path
    policy: str
    mechanism: str
    waiting: float


@dataclass(frozen=True, eq=False)
class Found:
    """(jobs,) completion times, s, whether each gains by more than its share, and its restarts."""

    jct_s: np.ndarray
    waits: np.ndarray
    restarts: np.ndarray


@cache
def samples_per_s(application: str) -> float:
    """Return the samples/s of an application on one V100 with the largest batch that it holds."""
    times = Application.read(SIA / "traces" / application, (MEASURED_ON,)).step_times[MEASURED_ON]
    _, largest = times.sizes((1,))
    return largest / times.at((1,), largest).step_s


@cache
def input_of(application: str, model: str) -> tuple[TabulatedSensitivity, float]:
    """Return the input of a job in samples/s, and its greatest speed over that at the share."""
    measured = profiles().of(model).sensitivity
    best = float(measured.rate(1, np.array(24.0), np.array(250.0)))
    return measured.times(samples_per_s(application) / best), best


def with_inputs(workload: Workload, waiting: float, seed: int) -> tuple[Workload, np.ndarray]:
    """Return the jobs with inputs, and (jobs,) which gain by more than their share."""
    random = np.random.default_rng(seed)
    inputs: list[Sensitivity] = []
    gains: list[bool] = []
    for application in workload.applications:
        waits, which = random.random(2)
        task = "speech" if application in SPEECH else "language"
        if application in IMAGE and waits < waiting:
            task = "image"
        names = MODELS[task]
        found, best = input_of(application, names[int(which * len(names))])
        inputs.append(found)
        gains.append(best > 1.0)
    return replace(workload, inputs=tuple(inputs)), np.array(gains)


def run(asked: Asked) -> Found:
    """Simulate a run, as live: each job is measured, and a restart costs what it was measured to."""
    nodes = read_cluster(CLUSTER)
    work, waits = with_inputs(read_trace(asked.trace), asked.waiting, seed=1)
    source = source_of(False, SIA / "traces", nodes)
    options = {"provisioning": asked.mechanism}
    outcome = simulation(work, nodes, asked.policy, options, source, Conditions()).run()
    return Found(outcome.jct_s, waits, outcome.restarts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=at_least(1), default=1, help="of each set")
    parser.add_argument("--waiting", type=float, default=0.3, help="part of the image jobs, 0 to 1")
    parser.add_argument("--processes", type=at_least(1), default=2)
    options = parser.parse_args()
    needs(PROFILES, SIA)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sets = {name: traces_of(name)[: options.traces] for name in SETS}
    traces = [trace for found in sets.values() for trace in found]
    asked = [Asked(t, p, m, options.waiting) for t in traces for p in POLICIES for m in MECHANISMS]
    runs: dict[tuple[Path, str, str], Found] = {}
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for one, found in zip(asked, pool.map(run, asked), strict=True):
            runs[one.trace, one.policy, one.mechanism] = found
            mean_h = found.jct_s.mean() / 3600
            print(f"{name_of(one.trace):22s} {one.policy:8s} {one.mechanism:13s} {mean_h:.3f} h", flush=True)

    def means(policy: str, mechanism: str, of: list[Path]) -> np.ndarray:
        """Return means over traces of the mean JCT, that of jobs that wait and of others, and restarts."""
        found = [runs[trace, policy, mechanism] for trace in of]
        columns = [(f.jct_s, f.jct_s[f.waits], f.jct_s[~f.waits], f.restarts) for f in found]
        return np.mean([[column.mean() for column in row] for row in columns], axis=0)

    figures: dict[str, float] = {"traces": float(len(traces))}
    names = ("mean_jct_ratio", "waiting_ratio", "others_ratio", "restarts_ratio")
    for policy in POLICIES:
        rows: list[list[object]] = []
        for name, of in {**sets, "all": traces}.items():
            shares, priced = (means(policy, mechanism, of) for mechanism in MECHANISMS)
            ratios = priced / shares
            rows.append([name, shares[0] / 3600, priced[0] / 3600, *ratios.tolist()])
            if name == "all":
                figures |= {f"{policy}/{n}": float(r) for n, r in zip(names, ratios, strict=True)}
            else:
                figures[f"{policy}/{name.removeprefix('scale/')}/mean_jct_ratio"] = float(ratios[0])
        heads = ["traces", "shares, h", "priced, h", "mean JCT", "jobs that wait", "others", "restarts"]
        table(f"{policy}, priced over proportional, {len(traces)} traces", heads, rows)
    finish("provisioned_goodput", figures)


if __name__ == "__main__":
    main()
