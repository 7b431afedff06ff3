"""Makes the parts of a service on a Ray cluster. Nothing runs yet but what answers commands."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import ray

from ...core.errors import StoreError
from ...core.settings import Settings
from ...core.slot import Slot
from ..access.secret_keys import SecretKeys
from ..access.secrets import Secrets
from ..care.private_folders import close_folders
from ..cycle import SchedulingCycle
from ..executors.actors import Executors
from ..executors.executor_homes import home_of
from ..files.packages import PackageStore
from ..forecasts.deadline_answers import DeadlineAnswers
from ..forecasts.forecaster import Forecaster
from ..jobs.record import JobRecord
from ..nodes.closing_nodes import ClosingNodes
from ..nodes.machines import Machines
from ..nodes.node_view import NodeView
from ..nodes.notice_listeners import NoticeListeners
from ..nodes.powering import Powering
from ..nodes.scaling import Scaling
from ..observers.folders import FolderHook
from ..observers.log_retention import LogRetention
from ..observers.metrics_hook import MetricsHook
from ..power.autoscaler import AutoscalerWishes
from ..rounds.chosen_policy import ChosenPolicy
from ..runtime.clock import SystemClock
from ..runtime.degraded import StoreWatch
from ..runtime.live_settings import LiveSettings
from ..store.failures import StoreFailure
from ..store.metrics import MetricsHistory
from ..store.store import Store
from .parts import Parts

log = logging.getLogger(__name__)

CLOCK = "clock"  # the fact of the store that keeps the time
AGAIN_S = 1.0  # between tries to open a store


def assembled(settings: Settings, begun: str) -> Parts:
    """Return the parts. What was changed of the settings while an earlier service ran counts from here on.

    Args:
        begun: names the `coadapt up` at which these settings were typed.

    Raises: StoreError for a store of another version.
    """
    watch = StoreWatch(SystemClock())
    close_folders(settings)
    store = _opened(settings, watch)
    live, policy = LiveSettings(store, settings, begun), ChosenPolicy(settings)
    clock = watch.clock = SystemClock(store.read_fact(CLOCK))
    packages, wake, machines = PackageStore(settings.package_dir), threading.Event(), Machines()

    def nodes_changed() -> None:
        parts.nodes_changed()

    def unleased() -> frozenset[str]:
        return power.unleased | scaling.unleased

    view = NodeView(settings.node_refresh_s, settings.spare_cpus, nodes_changed, unleased)
    closing = ClosingNodes(view, store, clock, lambda: power.control.machines)
    wishes = AutoscalerWishes()
    power = Powering(settings, store, closing, wake.set, wishes=wishes)

    def stays(machine: str) -> str:
        return "`coadapt node keep` keeps it" if power.keeps(machine) else ""

    scaling = Scaling(settings, store, power.nodes, wishes, stays)
    nodes = scaling.nodes
    secrets = Secrets(store, SecretKeys(settings.secret_keys), clock)
    listeners = NoticeListeners(settings, closing, clock, nodes_changed)

    def home(job: JobRecord, slots: Sequence[Slot]) -> str | None:
        """Return where a job's executor shall stand. A node that may be powered off or given up has none."""
        if settings.power is not None or settings.scaling is not None:
            return None
        return home_of(job, slots, nodes.snapshot, tuple(store.unretired.values()))

    executors = Executors(
        settings,
        packages,
        lambda: nodes.snapshot.cluster.gpu_types,
        lambda job_id, reason: cycle.executor_lost(job_id, reason),
        home,
        lambda job: store.find(job.id) or job,
        secrets=secrets.given,
    )
    folders, history = FolderHook(store, machines, settings, clock), MetricsHistory(store)
    forecaster = Forecaster(store, settings, clock, teams=lambda: cycle.teams.now)
    answers = DeadlineAnswers(lambda: store.unretired.values(), forecaster.prediction, clock.steady_s())
    cycle = SchedulingCycle(
        store,
        policy.now,
        nodes,
        executors,
        clock,
        settings,
        hooks=[folders, LogRetention(store, settings, clock), MetricsHook(history), forecaster],
        advised=power.take,
        answers=answers.news,
        woken=wake.set,
        watch=watch,
        traits=lambda: policy.now.traits,
    )
    parts = Parts(
        settings=settings,
        store=store,
        clock=clock,
        watch=watch,
        wake=wake,
        live=live,
        policy=policy,
        cycle=cycle,
        view=view,
        closing=closing,
        power=power,
        scaling=scaling,
        machines=machines,
        folders=folders,
        listeners=listeners,
        executors=executors,
        packages=packages,
        secrets=secrets,
        history=history,
        forecaster=forecaster,
        answers=answers,
        fork_threads=ThreadPoolExecutor(1, "forks"),
    )
    return parts


def _opened(settings: Settings, watch: StoreWatch) -> Store:
    """Open the store, however long it cannot be written. Raises: StoreError, when the service first starts."""
    while True:
        try:
            store = Store(settings.store, watch.wrote, settings.backup_dir)
            with suppress(OSError):  # for verbs that look after a store while no service runs
                Path(settings.state_dir, "store_url").write_text(settings.store_url or "")
            return store
        except StoreError as error:
            # One that was made anew would not be made again: it waits until its database is back.
            if not isinstance(error, StoreFailure) and not _made_anew():
                raise
            log.error("%s; it is tried again", error)
            time.sleep(AGAIN_S)  # nobody tells when there is room on a disk


def _made_anew() -> bool:
    """Return whether Ray has made this actor again after its process had ended."""
    return ray.is_initialized() and bool(ray.get_runtime_context().was_current_actor_reconstructed)
