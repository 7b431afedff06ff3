"""Tells how the service itself is: to those who wait for it, and to those who watch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...core.figures import Figures
from ...core.schemas import HealthView
from ...core.settings import Settings
from ..access.others_jobs import OthersJobs
from ..care.backups import Backups
from ..care.housekeeping import Housekeeping
from ..cycle import SchedulingCycle
from ..delivery.deliveries import Deliveries
from ..nodes.node_source import NodeSource
from ..nodes.scaling import Scaling
from ..rounds.readiness import Readiness
from ..runtime.clock import Clock
from ..runtime.degraded import StoreWatch
from ..runtime.loop import Health
from ..store.store import Store
from ..views.cluster_views import health_view
from ..views.figures import collected


class HealthDesk:
    """Answers for the service.

    Args:
        of_loop: returns how the loop is that runs rounds.
        foretelling: returns sentences on whether jobs are foretold.
    """

    def __init__(
        self,
        store: Store,
        cycle: SchedulingCycle,
        nodes: NodeSource,
        settings: Settings,
        clock: Clock,
        watch: StoreWatch,
        readiness: Readiness,
        backups: Backups,
        housekeeping: Housekeeping,
        scaling: Scaling,
        deliveries: Deliveries,
        of_loop: Callable[[], Health],
        foretelling: Callable[[], list[str]],
    ) -> None:
        self._store, self._cycle, self._nodes, self._settings = store, cycle, nodes, settings
        self._clock, self._watch, self._readiness = clock, watch, readiness
        self._backups, self._housekeeping, self._of_loop = backups, housekeeping, of_loop
        self._scaling, self._others, self._deliveries = scaling, OthersJobs(store), deliveries
        self._foretelling = foretelling

    def ping(self) -> bool:
        """Return whether rounds can run: the nodes are known and the solver is compiled."""
        return self._readiness.ready

    def compiling(self) -> bool:
        """Return whether the first round waits only for its kernels, which are compiled once per install."""
        return self._readiness.compiling

    def health(self, shared: bool = False) -> HealthView:
        """Return how old its last round and tick are, and what it cannot do now.

        Args:
            shared: without what its last tick raised, which may tell of anybody's job.
        """
        now = self._of_loop()
        if shared and now.trouble:
            now = replace(now, trouble=self._others.error(now.trouble, None))
        told = (self._watch.notes(), self._housekeeping.notes(), self._deliveries.notes(), self._foretelling())
        notes = [note for notes in told for note in notes]
        return health_view(now, notes, self._cycle.round_age_s())

    def figures(self) -> Figures:
        """Return what is told to those who watch the service."""
        with self._cycle.lock:
            jobs, since = tuple(self._store.unretired.values()), self._cycle.tallies.told()
        return collected(
            store=self._store,
            settings=self._settings,
            clock=self._clock,
            watch=self._watch,
            health=self._of_loop(),
            nodes=self._nodes.snapshot,
            bought=self._scaling.figures(),
            jobs=jobs,
            since=since,
            backups=self._backups,
            ready=self._readiness.ready,
            round_age_s=self._cycle.round_age_s(),
            deliveries=self._deliveries.figures(),
        )
