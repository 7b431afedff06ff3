"""Says what CPUs and memory a job has, how fast it is by them, and what they are worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..contract.explanation import Explanation, job_of
from ..contract.round import Plan, Round

# Names of `Plan.figures`, (jobs,) each; nan for a job that waits.
SHARE_CPUS, SHARE_MEMORY_GIB, SPEED = "share_cpus", "share_memory_gib", "speed_over_share"


def told(job: str, round: Round, plan: Plan) -> tuple[list[str], dict[str, Any]]:
    """Return sentences on what a job is provisioned with, and what they state; nothing where nobody chose it.

    Raises KeyError if the round has no such job.
    """
    placement, at = plan.placements.get(job), job_of(job, round)
    if placement is None or SPEED not in plan.figures or np.isnan(plan.figures[SPEED][at]):
        return [], {}
    cpus = sum(share.cpus for share in placement.shares)
    memory_gib = sum(share.memory_gib for share in placement.shares)
    share = float(plan.figures[SHARE_CPUS][at]), float(plan.figures[SHARE_MEMORY_GIB][at])
    speed = float(plan.figures[SPEED][at])
    than = "as fast as" if abs(speed - 1) < 5e-3 else f"{speed:.2f} times as fast as"
    said = [
        f"It has {cpus:g} CPUs and {memory_gib:.4g} GiB of memory; its GPUs' share is {share[0]:g} and "
        f"{share[1]:.4g}.",
        f"It trains {than} with its share.",
    ]
    facts: dict[str, Any] = {
        "cpus": cpus,
        "memory_gib": memory_gib,
        "share": {"cpus": share[0], "memory_gib": share[1]},
        "speed_over_share": speed,
    }
    gpu_type = placement.gpu_type
    if gpu_type in plan.cpu_prices:
        cpu, gib = plan.cpu_prices[gpu_type], plan.memory_prices[gpu_type]
        said.append(
            f"One more CPU beside {gpu_type} GPUs would be worth {cpu:.3g} of a job's speed at its share, and one "
            f"more GiB {gib:.3g}."
        )
        facts["prices"] = {"cpu": cpu, "gib": gib}
    return said, facts


def explained_with(found: Explanation, job: str, round: Round, plan: Plan) -> Explanation:
    """Return an explanation with what is told of CPUs and memory. Raises KeyError as `told`."""
    said, facts = told(job, round, plan)
    return replace(found, sentences=(*found.sentences, *said), facts={**found.facts, **facts})
