"""Load that doubles and comes back, simulated: its cost with nodes that are bought, and on a fixed cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from coadapt.core.scaling_settings import ScalingSettings
from coadapt.policies.warm_up import warm_up
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.scaling import always_there, cost_figures, fixed_peak, scaled
from coadapt.simulator.synthetic import synthetic
from coadapt.simulator.traces.workload import Workload

PER_HOUR, HOURS = 10.0, 4.0  # usual load, and how long before, during and after the double one
SETTINGS = ScalingSettings.model_validate(
    {
        "budget_per_h": 60.0,
        "rounds": 3,
        "idle_s": 300.0,
        "keep_s": 600.0,
        "boot_s": 180.0,
        "types": {
            "t4-spot": {"gpu_type": "t4", "gpus": 4, "price_per_h": 1.6, "min": 1, "max": 12, "spot": True},
            "t4": {"gpu_type": "t4", "gpus": 4, "price_per_h": 3.9, "max": 6},
            "a100": {"gpu_type": "a100", "gpus": 4, "price_per_h": 12.0, "max": 6},
        },
    }
)
# What a GPU must earn, in units of each objective, on both clusters. Else elastic jobs spread over all nodes there
# are, and none becomes idle.
OPTIONS: Mapping[str, Mapping[str, float]] = {"coadapt": {"gpu_price": 0.002}, "sia": {"gpu_price": 0.03}}


@dataclass(frozen=True)
class Compared:
    """A load under one policy. Both clusters end the same jobs, and so make the same progress.

    dollars, fixed_dollars: what nodes cost until the last job had ended, bought and on the fixed cluster.
    jct_s, fixed_jct_s: mean job completion times.
    peak: nodes of the fixed cluster, those of the dearest moment of the other.
    """

    dollars: float
    fixed_dollars: float
    jct_s: float
    fixed_jct_s: float
    peak: Mapping[str, int]

    @property
    def cost_ratio(self) -> float:
        """Return the cost of progress, relative to the fixed cluster."""
        return self.dollars / self.fixed_dollars


def doubled(seed: int) -> Workload:
    """Return jobs at the usual rate, then twice as many, then the usual rate again."""
    usual, double = int(PER_HOUR * HOURS), int(2 * PER_HOUR * HOURS)
    made = synthetic(2 * usual + double, PER_HOUR, seed)
    gaps = np.diff(made.submit_s, prepend=0.0)
    gaps[usual : usual + double] /= 2
    return replace(made, submit_s=np.cumsum(gaps))


def compare(policy: str, seed: int) -> Compared:
    """Return what the load costs under a policy."""
    warm_up(policy, OPTIONS.get(policy, {}))
    workload = doubled(seed)
    bought, logs = _run(policy, workload, SETTINGS)
    peak = fixed_peak(SETTINGS, logs)
    settings = always_there(SETTINGS, peak)
    fixed, fixed_logs = _run(policy, workload, settings)
    return Compared(
        cost_figures(SETTINGS, logs, bought)["dollars"],
        cost_figures(settings, fixed_logs, fixed)["dollars"],
        float(bought.jct_s.mean()),
        float(fixed.jct_s.mean()),
        peak,
    )


def _run(policy: str, workload: Workload, settings: ScalingSettings) -> tuple[Outcome, list[Any]]:
    nodes = scaled(None, settings)
    under = Conditions(timing=Timing(60.0), scaling=settings)
    made = simulation(workload, nodes, policy, OPTIONS.get(policy, {}), source_of(False, None, nodes), under)
    outcome = made.run()
    return outcome, [engine.nodes.log for engine in made.engines]
