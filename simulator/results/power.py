"""What sleeping nodes saved in a run, and which jobs waited for a boot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...policies.sleeping.kwh import boot_kwh, saved_kwh
from ..engine.node_states import PowerChange, PowerEvent
from ..engine.outcome import Outcome

# Figures of runs whose nodes may sleep -> what they are, for people.
MEANING_OF_SLEEP = {
    "nodes_off": "nodes off, mean",
    "wakes_per_day": "wake-ups a day",
    "saved_kwh": "saved by sleep (kWh)",
}


@dataclass(frozen=True)
class PowerSummary:
    """The nodes of a run that slept, over its time.

    nodes_off: in the mean; a node that boots is on. wakes_per_day: moments at which nodes woke, of one pool each.
    nodes_per_wake: 0 if none ever woke. saved_kwh: less what boots took.
    """

    nodes_off: float
    wakes_per_day: float
    nodes_per_wake: float
    saved_kwh: float


def power_summary(
    logs: Sequence[Sequence[PowerChange]], first_s: float, last_s: float, boot_s: float
) -> PowerSummary:
    """Sum up a run's changes of power from `first_s` to `last_s`; `logs`: one of each pool, in order of time."""
    off_s, boots, wakes = 0.0, 0, 0
    for log in logs:
        since: dict[str, float] = {}
        moments = set()
        for change in log:
            if change.event is PowerEvent.SLEEPS:
                since[change.node_id] = change.time_s
            elif change.event is PowerEvent.WAKES:
                off_s += _within(since.pop(change.node_id), change.time_s, first_s, last_s)
                boots += 1
                moments.add(change.time_s)
        wakes += len(moments)
        off_s += sum(_within(at, last_s, first_s, last_s) for at in since.values())
    days = (last_s - first_s) / 86_400
    return PowerSummary(
        off_s / (last_s - first_s),
        wakes / days,
        boots / wakes if wakes else 0.0,
        saved_kwh(off_s / 3600) - boot_kwh(boots, boot_s),
    )


def power_figures(logs: Sequence[Sequence[PowerChange]], outcome: Outcome, boot_s: float) -> dict[str, float]:
    """Return the figures of a run whose nodes could sleep, from its first submission to its last end."""
    found = power_summary(
        logs, float(outcome.workload.submit_s.min()), float(outcome.finished_s.max()), boot_s
    )  # fmt: skip
    return {"nodes_off": found.nodes_off, "wakes_per_day": found.wakes_per_day, "saved_kwh": found.saved_kwh}


def _within(begin_s: float, end_s: float, first_s: float, last_s: float) -> float:
    return max(min(end_s, last_s) - max(begin_s, first_s), 0.0)


def waited_for_boot(
    log: Sequence[PowerChange], submit_s: np.ndarray, started_s: np.ndarray, late_s: float = 60.0
) -> np.ndarray:
    """Return (jobs,) whether each waited while a node of its pool booted, and started when that was back.

    Jobs that would have waited as long for others count, too. So there are at most so many that a boot delayed.

    Args:
        late_s: how long after a node is back a job that waited for it may start, which is a round.
    """
    back_s = np.array(sorted(change.time_s for change in log if change.event is PowerEvent.IS_BACK))
    if not len(back_s):
        return np.zeros(len(submit_s), bool)
    at = np.searchsorted(back_s, started_s, side="right") - 1
    last_s = np.where(at >= 0, back_s[np.maximum(at, 0)], -np.inf)
    return np.asarray((submit_s < last_s) & (started_s - last_s <= late_s))
