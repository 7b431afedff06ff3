"""The parts of one service, of which actor and desks take what they need."""

from __future__ import annotations

import threading
from concurrent.futures import Executor
from dataclasses import dataclass, field

from ...core.settings import Settings
from ..access.audit import AuditLog
from ..access.identities import Identities
from ..access.secrets import Secrets
from ..care.backups import Backups
from ..care.housekeeping import Housekeeping
from ..care.pruning import Pruning
from ..changes.forks import Forks
from ..cycle import SchedulingCycle
from ..delivery.deliveries import Deliveries, Post
from ..delivery.pictures import Pictures
from ..delivery.ray_sender import RaySender
from ..delivery.webhooks import Webhooks
from ..executors.actors import Executors
from ..files.packages import PackageStore
from ..forecasts.asker import Asker
from ..forecasts.deadline_answers import DeadlineAnswers
from ..forecasts.forecaster import Forecaster
from ..nodes.closing_nodes import ClosingNodes
from ..nodes.machines import Machines
from ..nodes.node_view import NodeView
from ..nodes.notice_listeners import NoticeListeners
from ..nodes.powering import Powering
from ..nodes.scaling import ScaledNodes, Scaling
from ..observers.folders import FolderHook
from ..rounds.chosen_policy import ChosenPolicy
from ..rounds.readiness import Readiness
from ..runtime.clock import SystemClock
from ..runtime.degraded import StoreWatch
from ..runtime.live_settings import LiveSettings
from ..store.metrics import MetricsHistory
from ..store.store import Store


@dataclass(kw_only=True)
class Parts:
    """What stands around a cycle. The second half is made of the first.

    `wake`: set when the loop has something to do. `view`: the nodes as Ray shows them.
    `fork_threads`: where checkpoints of forks are copied. `post`: the way to what sends events out.
    """

    settings: Settings
    store: Store
    clock: SystemClock
    watch: StoreWatch
    wake: threading.Event
    live: LiveSettings
    policy: ChosenPolicy
    cycle: SchedulingCycle
    view: NodeView
    closing: ClosingNodes
    power: Powering
    scaling: Scaling
    machines: Machines
    folders: FolderHook
    listeners: NoticeListeners
    executors: Executors
    packages: PackageStore
    secrets: Secrets
    history: MetricsHistory
    forecaster: Forecaster
    answers: DeadlineAnswers
    fork_threads: Executor
    post: Post = field(default_factory=RaySender)

    readiness: Readiness = field(init=False)
    identities: Identities = field(init=False)
    audit: AuditLog = field(init=False)
    asker: Asker = field(init=False)
    forks: Forks = field(init=False)
    backups: Backups = field(init=False)
    pruning: Pruning = field(init=False)
    housekeeping: Housekeeping = field(init=False)
    webhooks: Webhooks = field(init=False)
    pictures: Pictures = field(init=False)
    deliveries: Deliveries = field(init=False)

    def __post_init__(self) -> None:
        store, settings, clock = self.store, self.settings, self.clock
        self.readiness = Readiness(settings, self.nodes)
        self.identities = Identities(store, clock, self.watch)
        self.asker = Asker()
        self.audit = AuditLog(store, clock, self.watch)
        self.forks = Forks(store, self.cycle.orders.do, settings, self.fork_threads)
        self.backups = Backups(store, settings, clock)
        self.pruning = Pruning(store, settings, clock, self.cycle.lock)
        self.housekeeping = Housekeeping([self.backups, self.pruning])
        self.webhooks = Webhooks(store, self.secrets, settings, clock)
        self.pictures = Pictures(self.secrets, settings, clock)
        self.deliveries = Deliveries(
            store,
            self.webhooks,
            self.post,
            settings,
            clock,
            store.database.epoch or 0,
            self.pictures.address,
        )

    @property
    def nodes(self) -> ScaledNodes:
        """The nodes as jobs may use them."""
        return self.scaling.nodes

    def in_use(self) -> dict[str, str]:
        """Return what is on each node, or shall be, by its id: jobs, and what is done after their end."""
        busy = self.machines.busy_nodes(self.view.snapshot)
        return dict.fromkeys(busy, "a job's folders are removed there") | self.cycle.in_use()

    def nodes_changed(self) -> None:
        """Let machines and rounds see the nodes of now."""
        self.machines.see(self.nodes.snapshot)
        self.cycle.ask_round()
