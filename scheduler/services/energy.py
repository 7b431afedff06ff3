"""The service `energy`: which machines to wake now, and which may sleep as nobody will need them for hours.

It counts the nodes of each kind, foretells how many will have jobs, and goes by `policies/sleeping`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ...core.cluster import Node
from ...estimators.boosted import Trees
from ...estimators.node_demand import HORIZONS, NodeDemand, NodeForecast, read
from ...estimators.node_demand_fit import LEAST_SLOTS, fit
from ...estimators.node_features import MEMORY, Calendar
from ...estimators.node_series import SLOT_S, Floats, NodeCounter
from ...estimators.node_sums import NodeSums
from ...policies.contract.round import Plan, Round
from ...policies.sleeping.counts import (
    DAY_S,
    PUBLISHED,
    CountRule,
    PeakRule,
    RecentRule,
    Seen,
    TrendRule,
    wakes_left,
)
from ...policies.sleeping.machines import Wanted, idle_nodes, pool_of, wanted
from .contract import NO_ADVICE, Advice, Fact, NodeCounts, NodeKind, Service
from .registry import register

MOST_AHEAD_S = HORIZONS[-1] * SLOT_S  # as far as it is foreseen: five hours
# (slots ahead, certainty) by which it is told until when a machine is likely not needed.
_UNTIL = ((6, 0.9), (18, 0.9), (36, 0.9), (72, 0.9))


class EnergyOptions(BaseModel):
    """What an operator may set. Options that are left out are those of the rule, or of its preset."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # peak: the most that is likely needed for some hours. trend: the published rule. recent: the most of late.
    rule: Literal["peak", "trend", "recent"] = "peak"
    model: Literal["boosted", "additive"] = "boosted"  # trees, or sums that people can read
    # Settings of the published runs, for rule trend.
    preset: Literal["venus", "earth", "saturn", "uranus", "philly"] = "venus"
    buffer: int | None = Field(default=None, ge=0)  # σ: nodes of each kind that stay awake beside what is needed
    least_decrease: int | None = Field(default=None, ge=1)  # nodes below which nobody is put to sleep
    hold_s: float | None = Field(default=None, ge=0)  # after a wake-up
    wakes_per_day: float | None = Field(default=None, gt=0)  # wake-ups that are granted; rule peak keeps to them
    history_s: float | None = Field(default=None, ge=SLOT_S)  # of the recent trend, or of rule recent
    future_s: float | None = Field(default=None, ge=SLOT_S, le=MOST_AHEAD_S)  # of the foreseen trend
    drop_seen: float | None = Field(default=None, ge=0)  # ξ_H: nodes
    drop_foreseen: float | None = Field(default=None, ge=0)  # ξ_P: nodes
    boot_s: float = Field(default=600.0, gt=0)  # after which a machine that is not back may be woken anew
    refit_s: float = Field(default=DAY_S, ge=SLOT_S)
    memory_days: float = Field(default=180.0, ge=7)  # of counts that are learned from
    holidays: frozenset[date] = frozenset()
    utc_offset_h: float = Field(default=0.0, ge=-14, le=14)
    seed: int = Field(default=0, ge=0)

    def count_rule(self) -> CountRule:
        """Return the rule that they set."""
        if self.rule == "trend":
            published = PUBLISHED[self.preset]
            return TrendRule(
                _or(self.buffer, published.buffer),
                _slots(self.history_s, published.history),
                _slots(self.future_s, published.future),
                _or(self.drop_seen, published.least_drop_seen),
                _or(self.drop_foreseen, published.least_drop_foreseen),
                _or(self.least_decrease, published.least_decrease),
                _slots(self.hold_s, published.hold),
            )
        buffer, decrease = _or(self.buffer, 1), _or(self.least_decrease, 1)
        if self.rule == "recent":
            return RecentRule(_slots(self.history_s, 36), buffer, decrease)
        return PeakRule(buffer, decrease, _slots(self.hold_s, 6))


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _slots(seconds: float | None, default: int) -> int:
    return default if seconds is None else math.ceil(seconds / SLOT_S)


@dataclass
class _Kind:
    """What the service remembers of nodes of one kind."""

    counter: NodeCounter
    since_s: float
    total: int = 0
    checked: int = -1  # the last slot at whose beginning it was looked which may sleep
    woke_s: list[float] = field(default_factory=list)


@register("energy")
class Energy(Service):
    """Says which machines to wake and which may sleep. It acts on none."""

    Options = EnergyOptions
    advises_machines = True

    def __init__(self, options: EnergyOptions | None = None) -> None:
        self.options = options or EnergyOptions()
        self._rule = self.options.count_rule()
        self._calendar = Calendar.of(self.options.holidays, self.options.utc_offset_h)
        self._most_slots = int(self.options.memory_days * DAY_S / SLOT_S)
        self._kinds: dict[NodeKind, _Kind] = {}
        self._model: NodeDemand | None = None
        self._fitted_s = -math.inf
        self._woken_s: dict[str, float] = {}  # machines that it said to wake, and when
        # The slot for which it was foretold last; by kind, what ran in the slots before and what is foreseen.
        self._ended_slot = -1
        self._ended: dict[NodeKind, tuple[Floats, NodeForecast | None]] = {}

    def observe(self, fact: Fact) -> None:
        """Take note of node counts. Raises ValueError, in one sentence, for counts that cannot be."""
        if not isinstance(fact, NodeCounts):
            return
        for kind, total in fact.total.items():
            known = self._kinds.get(kind)
            if known is None:
                known = self._kinds[kind] = _Kind(NodeCounter(self._most_slots), fact.at_s)
            known.counter.note(fact.at_s, fact.running.get(kind, 0), total)
            known.total = total

    # --- advice ---------------------------------------------------------------------------------------------

    def advise(self, now: float, round: Round, plan: Plan) -> Advice:
        """Return which machines to wake for waiting jobs; every ten minutes also which may sleep."""
        awake, asleep = _by_kind(round.cluster.nodes, round), _by_kind(round.asleep, round)
        self._forget(now, round)
        kinds = sorted(awake.keys() | asleep.keys())
        if not kinds:
            return NO_ADVICE
        back = frozenset(self._woken_s)
        wants = {pool: wanted(pool, round, plan, back) for pool in {kind.pool for kind in kinds}}
        idle = _by_kind(idle_nodes(round, plan), round)
        wake, reasons = self._wake(now, wants, awake, asleep, idle)
        slot = int(now // SLOT_S)
        due = [kind for kind in kinds if kind in self._kinds and self._kinds[kind].checked < slot]
        may = [kind for kind in due if kind.gpu_type not in wants[kind.pool].waiting and idle.get(kind)]
        sleep, until_s = self._sleep(now, may, awake, asleep, idle, reasons)
        for kind in due:
            self._kinds[kind].checked = slot
        return Advice(wake, sleep, until_s, reasons, round.now + (slot + 1) * SLOT_S - now)

    def _forget(self, now: float, round: Round) -> None:
        """Forget machines that are back, and those that should be back long since."""
        there = {node.machine_name for node in round.cluster.nodes}
        limit = now - self.options.boot_s
        self._woken_s = {name: at for name, at in self._woken_s.items() if name not in there and at > limit}

    def _wake(
        self,
        now: float,
        wants: Mapping[str, Wanted],
        awake: Mapping[NodeKind, Sequence[Node]],
        asleep: Mapping[NodeKind, Sequence[Node]],
        idle: Mapping[NodeKind, Sequence[Node]],
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the machines that waiting jobs need, and those that the rule adds, with a sentence each."""
        wake, reasons = list[str](), dict[str, str]()
        for kind, nodes in asleep.items():
            taken = wants[kind.pool].nodes
            names = [node.machine_name for node in nodes]
            needs = [name for name in names if name in taken and name not in self._woken_s]
            if not needs:
                continue
            reasons |= {name: taken[name] for name in needs}
            here = len(awake.get(kind, ()))
            returning = sum(name in self._woken_s for name in names)
            wanted_here = sum(name in taken for name in names) + wants[kind.pool].idle.get(kind.gpu_type, 0)
            needed = here - len(idle.get(kind, ())) + wanted_here
            total = here + len(nodes)
            target = max(self._woken(kind, now, here + returning, needed, total), here + returning + len(needs))
            rest = [name for name in names if name not in self._woken_s and name not in taken]
            more = rest[: max(target - here - returning - len(needs), 0)]
            reasons |= dict.fromkeys(more, "It is woken beside others, so that the next jobs find room.")
            wake += [*needs, *more]
            if kind in self._kinds:
                self._kinds[kind].woke_s.append(now)
        self._woken_s |= dict.fromkeys(wake, now)
        return tuple(wake), reasons

    def _woken(self, kind: NodeKind, now: float, awake: int, needed: int, total: int) -> int:
        seen = self._seen([kind], now).get(kind)
        if seen is None:
            return min(needed + _or(self.options.buffer, 1), total)
        return min(self._rule.woken(seen, awake, needed), total)

    def _sleep(
        self,
        now: float,
        kinds: Sequence[NodeKind],
        awake: Mapping[NodeKind, Sequence[Node]],
        asleep: Mapping[NodeKind, Sequence[Node]],
        idle: Mapping[NodeKind, Sequence[Node]],
        reasons: dict[str, str],
    ) -> tuple[tuple[str, ...], dict[str, float]]:
        """Return the idle machines that may sleep, of the emptiest kinds first, and until when; add reasons."""
        found = list[tuple[float, NodeKind, list[str]]]()
        until_s: dict[str, float] = {}
        for kind, seen in self._seen(kinds, now).items():
            returning = sum(node.machine_name in self._woken_s for node in asleep.get(kind, ()))
            here = len(awake[kind]) + returning
            left = max(self._rule.slept(seen, here), here - len(idle[kind]))
            names = [node.machine_name for node in idle[kind][: max(here - left, 0)]]
            if not names:
                continue
            found.append((len(idle[kind]) / len(awake[kind]), kind, names))
            until = now + _until_slots(seen.forecast, left) * SLOT_S
            until_s |= dict.fromkeys(names, until)
            hours = (until - now) / 3600
            enough = f"{left} of {seen.total} {kind.gpu_type} nodes are likely enough for {hours:.3g} h"
            sentence = f"It is idle, and {enough}."
            reasons |= dict.fromkeys(names, sentence)
        found.sort(key=lambda one: (-one[0], one[1]))
        return tuple(name for _, _, names in found for name in names), until_s

    def _seen(self, kinds: Sequence[NodeKind], now: float) -> dict[NodeKind, Seen]:
        """Return what is known of each kind of which something was counted, by slots that have ended."""
        self._foresee(now)
        all_nodes = sum(known.total for known in self._kinds.values())
        found = {}
        for kind in kinds:
            if kind not in self._ended:
                continue
            running, forecast = self._ended[kind]
            known, grants = self._kinds[kind], self.options.wakes_per_day
            left = None
            if grants is not None and all_nodes:
                left = wakes_left(grants * known.total / all_nodes, known.since_s, known.woke_s, now)
            since = (now - known.woke_s[-1]) / SLOT_S if known.woke_s else math.inf
            found[kind] = Seen(running, known.total, forecast, since, left)
        return found

    def _foresee(self, now: float) -> None:
        """Foretell all kinds at once, when another slot has ended."""
        if self._ended_slot == (slot := int(now // SLOT_S)):
            return
        cuts = {
            kind: cut
            for kind, known in self._kinds.items()
            if len(cut := known.counter.series(MEMORY + 1).until(now)) and math.isfinite(cut.filled[-1])
        }
        forecasts: list[NodeForecast | None] = [None] * len(cuts)
        if self._model is not None and self.options.rule != "recent":
            forecasts = self._model.forecast(list(cuts.values()))
        self._ended_slot = slot
        self._ended = {
            kind: (cut.filled[np.isfinite(cut.filled)], forecast)
            for (kind, cut), forecast in zip(cuts.items(), forecasts, strict=True)
        }

    # --- learning -------------------------------------------------------------------------------------------

    def fit_due(self, now: float) -> bool:
        """Return whether a day has passed since the last fit; at first, once enough was counted."""
        if self.options.rule == "recent" or not self._kinds:
            return False
        if math.isinf(self._fitted_s):
            return now - min(known.since_s for known in self._kinds.values()) >= LEAST_SLOTS * SLOT_S
        return now - self._fitted_s >= self.options.refit_s

    def fitting(self, now: float) -> Callable[[], NodeDemand | None]:
        """Return a function that fits the forecast to the slots that had ended by now."""
        history = [known.counter.series().until(now) for known in self._kinds.values()]
        in_use, calendar, seed, sums = (
            self._model, self._calendar, self.options.seed, self.options.model == "additive",
        )  # fmt: skip
        self._fitted_s = now
        return lambda: fit(history, now, calendar=calendar, in_use=in_use, seed=seed, additive=sums)

    def take(self, model: Any) -> None:
        """Use a model from now on; None: too little was counted for one."""
        if model is not None:
            self._model, self._ended_slot = model, -1

    def document(self) -> Mapping[str, Any] | None:
        """Return the model in use and what was counted as plain JSON values; None: there is no model."""
        if self._model is None:
            return None
        counts = [
            {"pool": kind.pool, "gpu_type": kind.gpu_type, "since_s": known.since_s, **known.counter.to_json()}
            for kind, known in sorted(self._kinds.items())
        ]
        return {"fitted_s": self._fitted_s, "model": self._model.to_json(), "counts": counts}

    def read(self, document: Mapping[str, Any]) -> None:
        """Use what `document` returned. Raises ValueError, in one sentence, for any other document."""
        try:
            fitted_s, rows = float(document["fitted_s"]), document["counts"]
            model = read(document["model"], self._calendar)
            kinds = {
                NodeKind(str(row["pool"]), str(row["gpu_type"])): _Kind(
                    NodeCounter.read(row, self._most_slots), float(row["since_s"])
                )
                for row in rows
            }
        except ValueError as error:
            raise ValueError(f"energy: {error}") from None
        except (KeyError, TypeError) as error:
            raise ValueError(f"energy: is no such model: {type(error).__name__}: {error}") from None
        if not model.kinds <= {NodeSums if self.options.model == "additive" else Trees}:
            raise ValueError(f"energy: the model is not {self.options.model}, as is wanted")
        self._model, self._fitted_s, self._kinds = model, fitted_s, kinds
        self._ended_slot, self._ended = -1, {}


def _by_kind(nodes: Sequence[Node], round: Round) -> dict[NodeKind, list[Node]]:
    """Return the nodes with GPUs of each kind, in the order in which they were given."""
    found: dict[NodeKind, list[Node]] = {}
    for node in nodes:
        if node.gpus > 0:
            found.setdefault(NodeKind(pool_of(node, round), node.gpu_type), []).append(node)
    return found


def _until_slots(forecast: NodeForecast | None, awake: int) -> int:
    """Return for how many slots so many nodes are likely enough; without a forecast, until the next check."""
    if forecast is None:
        return 1
    enough = 1
    for slots, certainty in _UNTIL:
        if forecast.peak(slots, certainty) > awake:
            break
        enough = slots
    return enough
