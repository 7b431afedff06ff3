"""The app over a real service without Ray, and clients of each role."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import httpx
from coadapt.api.app import make_app
from coadapt.core.identity import Role
from coadapt.core.job import JobSpec
from coadapt.policies.catalogue import make_policy
from coadapt.scheduler.audit import AuditLog
from coadapt.scheduler.backups import Backups
from coadapt.scheduler.forks import Forks
from coadapt.scheduler.housekeeping import Housekeeping
from coadapt.scheduler.identities import Identities
from coadapt.scheduler.live_settings import LiveSettings
from coadapt.scheduler.loop import Loop
from coadapt.scheduler.machines import Machines
from coadapt.scheduler.nodes import NodesSnapshot
from coadapt.scheduler.notice_listeners import NoticeListeners
from coadapt.scheduler.packages import PackageStore
from coadapt.scheduler.powering import Powering
from coadapt.scheduler.pruning import Pruning
from coadapt.scheduler.secret_keys import SecretKeys
from coadapt.scheduler.secrets import Secrets
from coadapt.scheduler.service import SchedulerService
from coadapt.scheduler.store.metrics import MetricsHistory

from tests.support.cycles import World
from tests.support.packages import NAME, kept

Answer = TypeVar("Answer")
SPEC = {"name": "a", "script": "train.py"}
JOB = {"spec": SPEC, "package": NAME}


def service_of(world: World) -> SchedulerService:
    """Return a service around a world's cycle; nothing of it runs by itself."""
    service = SchedulerService.__new__(SchedulerService)
    service._store, service._cycle, service._settings = world.store, world.cycle, world.settings
    service._clock, service._nodes, service._policy = world.clock, world.closing, make_policy("fifo")
    service._watch, service._wake, service._warm = world.cycle._watch, threading.Event(), threading.Event()
    service._packages = PackageStore(world.settings.package_dir)
    service._identities = Identities(world.store, world.clock, service._watch)
    service._audit = AuditLog(world.store, world.clock, service._watch)
    service._secrets = Secrets(world.store, SecretKeys(world.settings.secret_keys), world.clock)
    service._executors = world.executors
    service._closing = world.closing
    service._power = Powering(world.settings, world.store, service._closing)
    service._listeners = NoticeListeners(world.settings, world.closing, world.clock, lambda: None)
    service._machines, service._view = IdleMachines(), world.nodes
    service._compiling, service._work = False, str(world.settings.state_dir)
    service._loop = Loop(world.store, service._watch, world.clock, [], lambda: None, lambda: 1.0, service._wake)
    at_once: Any = SimpleNamespace(submit=lambda work, *args: work(*args))
    service._forks = Forks(world.store, world.cycle.do, world.settings, at_once)
    service._live = LiveSettings(world.store, world.settings, "")
    service._history = MetricsHistory(world.store)
    service._backups = Backups(world.store, world.settings, world.clock)
    service._pruning = Pruning(world.store, world.settings, world.clock, world.cycle.lock)
    service._housekeeping = Housekeeping([service._backups, service._pruning])
    service._warm.set()
    return service


class IdleMachines(Machines):
    """Machines on which nothing is done beside jobs."""

    def __init__(self) -> None:
        """Ask no Ray."""

    def see(self, snapshot: NodesSnapshot) -> None:
        """Keep no templates."""

    def busy_nodes(self, snapshot: NodesSnapshot) -> list[str]:
        return []


class DirectScheduler:
    """Calls a service in this process."""

    def __init__(self, service: SchedulerService) -> None:
        self.service = service

    async def call(self, method: str, *args: Any) -> Any:
        return getattr(self.service, method)(*args)


class Api:
    """An app with a user of each role; `tokens`: by user."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder, "1x t4:4")
        self.service = service_of(self.world)
        kept(self.world.settings.package_dir)
        self.app = make_app(DirectScheduler(self.service))
        self.tokens: dict[str, str] = {}
        for user, role in (("vic", Role.VIEWER), ("ann", Role.USER), ("bob", Role.USER), ("ops", Role.OPERATOR)):
            self.service.put_user(user, role.value)
            self.tokens[user] = self.service.issue_token(user)["token"]

    def job(self, owner: str, name: str = "a") -> str:
        """Submit a job of a user as the service does, and return its id."""
        spec = JobSpec(name=name, script="train.py")
        return self.service.submit(spec.model_dump_json(), None, f"{owner}-{name}", "", owner)

    def ask(self, method: str, path: str, user: str | None = "ops", **more: Any) -> httpx.Response:
        """Return the answer to one request of a user; None: of nobody."""

        async def ask(client: httpx.AsyncClient) -> httpx.Response:
            return await client.request(method, path, **more)

        return self.run(ask, user)

    def run(self, work: Callable[[httpx.AsyncClient], Awaitable[Answer]], user: str | None = "ops") -> Answer:
        """Run something with a client of a user."""

        async def run() -> Answer:
            transport = httpx.ASGITransport(self.app)
            headers = {} if user is None else {"Authorization": f"Bearer {self.tokens[user]}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers) as client:
                return await work(client)

        return asyncio.run(run())
