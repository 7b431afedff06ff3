"""Machines without Ray: a world in which hands only note what they are to do, and tests answer for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coadapt.core.cluster import Cluster, Node
from coadapt.core.power_settings import PowerSettings
from coadapt.scheduler.nodes.machine_table import MachineTable
from coadapt.scheduler.power.control import PowerControl
from coadapt.scheduler.power.machine import Machine
from coadapt.scheduler.power.reactions import Answer, Do
from coadapt.scheduler.power.rules import Seen
from coadapt.scheduler.services.contract import Advice
from coadapt.scheduler.store.store import Store

SETTINGS = PowerSettings(adapter="emulated", sleep_limit_s=100, wake_limit_s=200, boot_s=20, tries=2, rest_s=300)


class NotingHands:
    """Notes what is to be done. Tests say what is answered."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ready: dict[str, Answer] = {}

    def do(self, what: Do, machine: Machine) -> None:
        self.asked.append(f"{what.value} {machine.name}")

    def answers(self) -> Mapping[str, Answer]:
        found, self.ready = self.ready, {}
        return found


class MachineWorld:
    """A control over a real store. Each machine m0, m1, … has one node n0, n1, … of its own."""

    def __init__(self, folder: Path, nodes: str, settings: PowerSettings | None = SETTINGS) -> None:
        """Begin with nodes such as "a100:4 a100:4 t4:2"."""
        self.path, self.settings = folder / "jobs.sqlite", settings
        kinds = [part.split(":") for part in nodes.split()]
        self.nodes = {
            f"m{i}": Node(f"n{i}", kind, int(gpus), 8.0, 64.0, machine=f"m{i}")
            for i, (kind, gpus) in enumerate(kinds)
        }
        self.away: set[str] = set()
        self.busy: dict[str, str] = {}
        self.homes: set[str] = set()
        self.now = 1000.0
        self.open()

    def open(self) -> None:
        """Begin anew over the same store, as a service does that was killed."""
        self.store, self.hands = Store(self.path), NotingHands()
        self.control = PowerControl(self.settings, MachineTable(self.store), self.hands)

    def reopen(self) -> None:
        self.store.close()
        self.open()

    @property
    def seen(self) -> Seen:
        here = [node for name, node in self.nodes.items() if name not in self.away]
        alive: dict[str, tuple[str, ...]] = {}
        for node in here:
            alive[node.machine_name] = (*alive.get(node.machine_name, ()), node.id)
        return Seen(Cluster(tuple(here)), alive, self.homes, self.busy)

    def advise(self, sleep: Sequence[str] = (), wake: Sequence[str] = (), **until_s: float) -> list[str]:
        """Take advice and let a tick follow; return what is begun."""
        self.control.take(Advice(tuple(wake), tuple(sleep), until_s), self.now)
        return self.tick()

    def order(self, verb: str, name: str) -> bool:
        return self.control.order(verb, name, self.seen, self.now)

    def tick(self, seconds: float = 1.0, **answers: Answer) -> list[str]:
        """Let time pass and answer for the hands; return what is begun then."""
        self.now += seconds
        self.hands.ready |= answers
        self.hands.asked = []
        self.control.tick(self.seen, self.now)
        return self.hands.asked

    def states(self) -> str:
        """Return the state of every machine that is stored, such as "m0 leaving, m1 asleep"."""
        return ", ".join(f"{name} {one.state.value}" for name, one in sorted(self.control.machines.items()))

    def told(self) -> list[str]:
        return [str(event.data["text"]) for event in self.store.cluster_events(50)]

    def put_to_sleep(self, *names: str) -> None:
        """Bring machines to sleep, all the way."""
        self.advise(sleep=names)
        self.tick(**dict.fromkeys(names, Answer(Do.LOOK, True)))
        self.away |= set(names)
        self.tick(**dict.fromkeys(names, Answer(Do.SLEEP, True)))
        self.tick()
        self.tick(**dict.fromkeys(names, Answer(Do.STATE, True, is_on=False)))

    def come_back(self, name: str, id: str, gpu_type: str | None = None) -> None:
        """Let the node of a machine come back under another id."""
        node = self.nodes[name]
        self.nodes[name] = replace(node, id=id, gpu_type=gpu_type or node.gpu_type)
        self.away.discard(name)
