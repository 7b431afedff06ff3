"""Tells how the cluster is as a whole, and what rounds have decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...core.identity import Reader
from ...core.schemas import HealthView, ScalingView
from ...core.settings import Settings
from ..access.others_jobs import OthersJobs, told_of_cluster
from ..cycle import SchedulingCycle
from ..nodes.closing_nodes import ClosingNodes
from ..nodes.node_source import NodeSource
from ..nodes.notice_listeners import NoticeListeners
from ..nodes.powering import Powering
from ..nodes.scaling import Scaling
from ..observers.round_log import told_to
from ..rounds.readiness import Readiness
from ..runtime.clock import Clock
from ..store import rounds
from ..store.store import Store
from ..views.cluster_views import cluster_view
from ..views.scaling_views import scaling_view
from .moments import Moments


class ClusterDesk:
    """Answers for the cluster and its rounds.

    Args:
        in_use: returns what is on each node, by its id.
        health: returns how the service itself is; true: without what only operators read.
    """

    def __init__(
        self,
        store: Store,
        cycle: SchedulingCycle,
        nodes: NodeSource,
        settings: Settings,
        clock: Clock,
        moments: Moments,
        readiness: Readiness,
        power: Powering,
        scaling: Scaling,
        closing: ClosingNodes,
        listeners: NoticeListeners,
        in_use: Callable[[], Mapping[str, str]],
        health: Callable[[bool], HealthView],
    ) -> None:
        self._store, self._cycle, self._nodes, self._settings = store, cycle, nodes, settings
        self._clock, self._moments, self._readiness = clock, moments, readiness
        self._power, self._closing, self._listeners = power, closing, listeners
        self._scaling = scaling
        self._in_use, self._health, self._others = in_use, health, OthersJobs(store)

    def cluster(self, reader: Reader | None = None) -> dict[str, Any]:
        """Return `core.schemas.ClusterView`; `reader`: without notes that this user may not read."""
        others, unplanned = self._others, self._cycle.unplanned
        if reader is not None and unplanned is not None:
            unplanned = others.error(unplanned, reader)
        last, now = self._cycle.last_round, self._clock.steady_s()
        found: dict[str, Any] = dict(
            cluster_view(
                self._nodes.snapshot,
                tuple(self._store.unretired.values()),
                self._settings,
                self._cycle.rounds,
                last.plan if last else None,
                compiling=self._readiness.compiling,
                unplanned=unplanned,
                events=self._store.cluster_events(),
                phases=self._cycle.phase_times.rows(),
                asleep=self._power.asleep(),
                saved_kwh=self._power.saved_kwh(now),
                scaling=self._bought(now),
                power_notes=[
                    *self._power.notes(self._in_use, now, self._moments.ahead_s),
                    *self._closing.notes(),
                    *self._listeners.notes(),
                ],
                health=self._health(reader is not None),
                ahead_s=self._moments.ahead_s,
                may_read=None if reader is None else partial(self._others.may_read, reader=reader),
            )
        )
        if reader is not None:
            found["scaling"] = _without_names(found["scaling"], others, reader)
            found["notes"] = others.hidden(found["notes"], reader)
            found["asleep"] = [{**row, "reason": others.hidden(row["reason"], reader)} for row in found["asleep"]]
            found["events"] = [told_of_cluster(event, others, reader) for event in found["events"]]
        return self._moments.shown(found)

    def _bought(self, now: float) -> ScalingView | None:
        scaling = self._scaling
        if (settings := scaling.settings) is None:
            return None
        return scaling_view(settings, scaling.state, scaling.control(settings), now, scaling.trouble)

    def rounds(
        self, before: int | None, most: int, since_s: float | None = None, reader: Reader | None = None
    ) -> dict[str, Any]:
        """Return `core.schemas.RoundRow`s, newest first, and the `next` place.

        Args:
            since_s: seconds since 1970.
            reader: without notes and errors that this user may not read.
        """
        with self._store.database.reading() as connection:
            found = rounds.read(connection, before, most + 1, self._moments.steady_s(since_s))
        rows = [told_to(row, self._others, reader) for row in found[:most]]
        return {"rows": self._moments.shown(rows), "next": rows[-1]["number"] if len(found) > most else None}


def _without_names(found: ScalingView | None, others: OthersJobs, reader: Reader) -> dict[str, Any] | None:
    """Return what is shown of nodes that are bought, without names of jobs that a user may not read."""
    if found is None:
        return None
    requests = [{**row, "reason": others.hidden(row["reason"], reader)} for row in found["requests"]]
    return {**found, "requests": requests, "lines": others.hidden(found["lines"], reader)}
