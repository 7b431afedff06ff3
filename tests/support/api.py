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
from coadapt.api.studies import Studies
from coadapt.core.identity import Role
from coadapt.core.job import JobSpec
from coadapt.scheduler.access.secret_keys import SecretKeys
from coadapt.scheduler.access.secrets import Secrets
from coadapt.scheduler.files.packages import PackageStore
from coadapt.scheduler.forecasts.deadline_answers import DeadlineAnswers
from coadapt.scheduler.forecasts.forecaster import Forecaster
from coadapt.scheduler.nodes.machines import Machines
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.nodes.notice_listeners import NoticeListeners
from coadapt.scheduler.nodes.powering import Powering
from coadapt.scheduler.nodes.scaling import Scaling
from coadapt.scheduler.observers.folders import FolderHook
from coadapt.scheduler.power.autoscaler import AutoscalerWishes
from coadapt.scheduler.rounds.chosen_policy import ChosenPolicy
from coadapt.scheduler.runtime.live_settings import LiveSettings
from coadapt.scheduler.runtime.loop import Loop
from coadapt.scheduler.service.desks_of import desks_of
from coadapt.scheduler.service.parts import Parts
from coadapt.scheduler.store.metrics import MetricsHistory

from tests.support.cycles import World
from tests.support.packages import NAME, kept

Answer = TypeVar("Answer")
SPEC = {"name": "a", "script": "train.py"}
JOB = {"spec": SPEC, "package": NAME}


class Served:
    """The desks of a service around a world's cycle, asked as the API asks them; nothing runs by itself."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        loop = Loop(parts.store, parts.watch, parts.clock, [], lambda: None, lambda: 1.0, parts.wake)
        self.desks = desks_of(parts, loop.health)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda *args: self.desks.ask(method, args)


def service_of(world: World) -> Served:
    """Return the desks of a service whose nodes and executors are those of a world."""
    stubs: Any = world
    settings, clock, machines = world.settings, stubs.clock, IdleMachines()
    at_once: Any = SimpleNamespace(submit=lambda work, *args: work(*args))
    power = Powering(settings, world.store, world.closing)
    parts = Parts(
        settings=settings,
        store=world.store,
        clock=clock,
        watch=world.cycle._watch,
        wake=threading.Event(),
        live=LiveSettings(world.store, settings, ""),
        policy=ChosenPolicy(settings),
        cycle=world.cycle,
        view=stubs.nodes,
        closing=world.closing,
        power=power,
        scaling=Scaling(settings, world.store, power.nodes, AutoscalerWishes()),
        machines=machines,
        folders=FolderHook(world.store, machines, settings, clock),
        listeners=NoticeListeners(settings, world.closing, clock, lambda: None),
        executors=stubs.executors,
        packages=PackageStore(settings.package_dir),
        secrets=Secrets(world.store, SecretKeys(settings.secret_keys), clock),
        history=MetricsHistory(world.store),
        forecaster=(forecaster := Forecaster(world.store, settings, clock)),
        answers=DeadlineAnswers(lambda: world.store.unretired.values(), forecaster.prediction),
        fork_threads=at_once,
    )
    parts.readiness.warm.set()
    return Served(parts)


class IdleMachines(Machines):
    """Machines on which nothing is done beside jobs."""

    def __init__(self) -> None:
        """Ask no Ray."""

    def see(self, snapshot: NodesSnapshot) -> None:
        """Keep no templates."""

    def busy_nodes(self, snapshot: NodesSnapshot) -> list[str]:
        return []


class DirectScheduler:
    """Asks desks in this process."""

    def __init__(self, service: Served) -> None:
        self.service = service

    async def call(self, method: str, *args: Any) -> Any:
        return self.service.desks.ask(method, args)


class Api:
    """An app with a user of each role; `tokens`: by user."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder, "1x t4:4")
        self.service = service_of(self.world)
        kept(self.world.settings.package_dir)
        self.begun: list[str] = []  # studies whose actors were started
        self.studies = Studies(folder / "studies", lambda id, _: self.begun.append(id), lambda id: None)
        self.app = make_app(DirectScheduler(self.service), studies=self.studies)
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
