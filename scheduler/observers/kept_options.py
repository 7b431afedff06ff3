"""What rounds keep of the options that jobs had: compactly, as most of them stay the same for long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...policies.contract.round import Plan
from .causes import plan_of
from .hooks import RoundDone

LOOKED_AT = 100  # jobs of a round, by turns; those that it changes come first
AGAIN = 60  # rounds after which options are written again though nothing has changed
REACH = 200  # rounds back in which options of a round are found
MOST_OPTIONS = 64  # of one job
DIGITS = 4
ALIKE = 0.02  # of the spread of a job's options: differences up to this are not written

Kept = dict[str, Any]


class KeptOptions:
    """Tells which jobs' options a round writes: those that differ from what was written last."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[int, Kept]] = {}  # round and options, by job
        self._turn = 0

    def of(self, done: RoundDone, changed: Iterable[str]) -> dict[str, Kept]:
        """Return the options to write by job. `changed`: jobs that the round gives other GPUs."""
        ids = [job_id for job_id in done.round.columns.ids.tolist() if "/" not in job_id]
        here, first = set(ids), [job_id for job_id in changed if "/" not in job_id]
        self._written = {job_id: last for job_id, last in self._written.items() if job_id in here}
        by_turns = [ids[(self._turn + at) % len(ids)] for at in range(min(LOOKED_AT, len(ids)))]
        self._turn = (self._turn + len(by_turns)) % max(len(ids), 1)
        found = {}
        for job_id in list(dict.fromkeys((*first, *by_turns)))[:LOOKED_AT]:
            if (options := options_of(job_id, done.plan)) is None:
                continue
            number, last = self._written.get(job_id, (-AGAIN, {}))
            if done.number - number >= AGAIN or not alike(options, last):
                found[job_id] = options
                self._written[job_id] = done.number, options
        return found


def options_of(job_id: str, plan: Plan) -> Kept | None:
    """Return the options of a job: of each GPU type and count the best on whatever nodes.

    `options`: rows of GPU type, GPUs, nodes, gain and cost, both in units of the objective. `chosen`: as "4xa100".
    None where the policy weighs no options.
    """
    plan = plan_of(job_id, plan)
    gains, configurations = plan.gains.get(job_id), plan.configurations
    if gains is None or configurations is None:
        return None
    costs = plan.costs.get(job_id, np.zeros(len(configurations)))
    placement = plan.placements.get(job_id)
    chosen = configurations.index(placement)
    best: dict[tuple[str, int], int] = {}
    for at in np.flatnonzero(np.isfinite(gains)).tolist():
        one = configurations[at]
        known = best.get((one.gpu_type, one.gpus))
        if (
            at == chosen
            or known is None
            or (known != chosen and gains[at] - costs[at] > gains[known] - costs[known])
        ):
            best[one.gpu_type, one.gpus] = at
    rows = [
        [*key, configurations[at].nodes, _short(gains[at]), _short(costs[at])]
        for key, at in sorted(best.items())[:MOST_OPTIONS]
    ]
    return {"options": rows, "chosen": "" if placement is None else f"{placement.gpus}x{placement.gpu_type}"}


def alike(one: Kept, other: Kept) -> bool:
    """Return whether two sets of options hardly differ."""
    if one.get("chosen") != other.get("chosen") or len(one["options"]) != len(other["options"]):
        return False
    if [row[:3] for row in one["options"]] != [row[:3] for row in other["options"]]:
        return False
    mine, theirs = (np.array([row[3:] for row in some["options"]], float).reshape(-1, 2) for some in (one, other))
    if not len(mine):
        return True
    spread = float(np.ptp(mine[:, 0])) or float(np.abs(mine[:, 0]).max())
    return float(np.abs(mine - theirs).max()) <= ALIKE * spread


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def shown_options(kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return kept options as `core.schemas.OptionRow`s."""
    names = ("gpu_type", "gpus", "nodes", "gain", "cost")
    rows = [dict(zip(names, row, strict=True)) for row in kept["options"]]
    return [{**row, "chosen": f"{row['gpus']}x{row['gpu_type']}" == kept["chosen"]} for row in rows]
