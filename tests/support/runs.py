"""Small runs of the simulator, as they are saved."""

from __future__ import annotations

import numpy as np
from coadapt.policies.catalogue import make_policy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.results.saved import SavedRun
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.tables import Floats
from coadapt.simulator.traces.workload import TraceJob, Workload


def saved(*lengths_s: float, rho: Floats | None = None, seed: int = 1, cluster: str = "1x t4:2") -> SavedRun:
    """Return a run of jobs of one GPU each, submitted at once and served first in, first out.

    `rho`: their finish-time fairness; by default 1 each.
    """
    jobs = [TraceJob(f"job-{i}", 0.0, 1, length) for i, length in enumerate(lengths_s)]
    engine = Engine(
        FixedLengthWorld(Workload.of(jobs)), cluster_of(cluster), make_policy("fifo"), Timing(events=True)
    )
    return SavedRun(
        "fifo",
        engine.run(),
        np.ones(len(jobs)) if rho is None else rho,
        np.array(lengths_s),
        {"trace": "t.csv", "seed": seed, "cluster": cluster},
    )
