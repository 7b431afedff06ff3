"""What each team had of a simulated run: times of its jobs, GPU-hours used, borrowed and lent, value units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...core.teams import Team, Teams, in_pool, kind_of, price_of
from ..engine.outcome import Outcome
from .metrics import intervals

MEANING_OF_TEAMS = {
    "jobs": "jobs",
    "mean_jct_h": "JCT, mean (h)",
    "mean_wait_h": "until first GPUs, mean (h)",
    "gpu_hours": "GPU-hours",
    "borrowed_gpu_hours": "of these borrowed",
    "lent_gpu_hours": "lent to others",
    "value_units": "value units",
}


def team_figures(
    outcome: Outcome, team: Mapping[str, str], teams: Teams, duals: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return the figures of each team that has jobs.

    Borrowed are GPU-hours beyond a guarantee. Borrowers take first what no guarantee promises. The rest is lent by
    the teams that leave a part of their guarantee idle, in proportion to it.

    Args:
        team: job id -> its team. duals: mean price of a GPU of each type, where the file of teams has none.
    """
    names = sorted({team[id] for id in outcome.workload.ids})
    place = {name: i for i, name in enumerate(names)}
    of = np.array([place[team[id]] for id in outcome.workload.ids])
    used, borrowed, lent, units = (np.zeros(len(names)) for _ in range(4))
    for part, cluster in (("", outcome.cluster),) if outcome.parts is None else outcome.parts.items():
        for gpu_type, capacity in cluster.capacity().items():
            promised = np.array([_promised(teams.teams[name], gpu_type, part) for name in names], float)
            hours, gpus = _timeline(outcome, of, len(names), gpu_type, part)
            more = np.maximum(gpus - promised, 0.0)
            idle = np.maximum(promised - gpus, 0.0)
            spare = max(capacity - sum(_promised(one, gpu_type, part) for one in teams.teams.values()), 0)
            from_others = np.maximum(more.sum(axis=1) - spare, 0.0)
            each = idle / np.maximum(idle.sum(axis=1), 1e-9)[:, None]
            total = hours @ gpus
            used += total
            borrowed += hours @ more
            lent += hours @ (each * np.minimum(from_others, idle.sum(axis=1))[:, None])
            kind = kind_of(gpu_type, part)
            units += total * price_of(teams.prices, duals, kind)
    wait_h = np.maximum(outcome.started_s - outcome.workload.submit_s, 0.0) / 3600
    found = {}
    for i, name in enumerate(names):
        mine = of == i
        found[name] = {
            "jobs": float(mine.sum()),
            "mean_jct_h": float(outcome.jct_s[mine].mean() / 3600),
            "mean_wait_h": float(wait_h[mine].mean()),
            "gpu_hours": float(used[i]),
            "borrowed_gpu_hours": float(borrowed[i]),
            "lent_gpu_hours": float(lent[i]),
            "value_units": float(units[i]),
        }
    return found


def _promised(team: Team, gpu_type: str, part: str) -> int:
    return in_pool(team.guarantee, part or None).get(gpu_type, 0)


def _timeline(
    outcome: Outcome, of: np.ndarray, teams: int, gpu_type: str, part: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return (intervals,) hours, and (intervals, teams) GPUs of a type that each team held in each."""
    found = intervals(outcome.holdings)
    mine = found.gpu_type == gpu_type
    if part:
        mine &= np.array(outcome.workload.virtual_clusters)[found.job] == part
    job, gpus = found.job[mine], found.gpus[mine]
    times, at = np.unique(np.concatenate([found.start_s[mine], found.end_s[mine]]), return_inverse=True)
    change = np.zeros((len(times), teams))
    np.add.at(change, (at[: len(job)], of[job]), gpus)
    np.add.at(change, (at[len(job) :], of[job]), -gpus)
    return np.diff(times) / 3600, np.cumsum(change, axis=0)[:-1]
