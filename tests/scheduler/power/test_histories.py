"""Random histories of advice, orders, jobs, kills and commands that fail: no machine is powered off under a job.

A machine is really on or off here, and its node comes and goes some time after that. Jobs are placed only where a
round could place them. At last everything works again, and what is told of machines must be true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from coadapt.core.cluster import Cluster
from coadapt.core.errors import PowerError
from coadapt.scheduler.nodes.machine_table import MachineTable
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.nodes.powered_nodes import with_power
from coadapt.scheduler.power.control import PowerControl
from coadapt.scheduler.power.machine import ASLEEP, FAILED, LEAVING, ON, WAKING, Machine
from coadapt.scheduler.power.reactions import Answer, Do
from coadapt.scheduler.services.contract import Advice
from coadapt.scheduler.store.store import Store

from tests.support.machines import SETTINGS, MachineWorld

NODES = "a100:4 a100:4 t4:2"


@dataclass
class Under:
    """A command that is under way: when it ends, and whether it will have worked by then."""

    due_s: float
    what: Do
    works: bool


class RandomHands:
    """Does to a world what is asked, after a while, and not always."""

    def __init__(self, world: History) -> None:
        self.world = world
        self.under_way: dict[str, Under] = {}

    def do(self, what: Do, machine: Machine) -> None:
        if what in (Do.OPEN, Do.FORGET):
            return
        assert machine.name not in self.under_way, "two things at once"
        dice = self.world.dice
        works = dice.random() < self.world.works
        self.under_way[machine.name] = Under(self.world.now + dice.uniform(0.0, 12.0), what, works)

    def answers(self) -> Mapping[str, Answer]:
        due = [name for name, one in self.under_way.items() if one.due_s <= self.world.now]
        return {name: self._end(name, self.under_way.pop(name)) for name in sorted(due)}

    def _end(self, name: str, one: Under) -> Answer:
        world = self.world
        # A command may say that it failed, and have done it.
        done = one.works or (one.what is not Do.LOOK and world.dice.random() < 0.3)
        if one.what is Do.SLEEP and done:
            world.power_off(name)
        if one.what is Do.WAKE and done:
            world.power_on(name)
        is_on = world.on[name] if one.what is Do.STATE and one.works else None
        return Answer(one.what, one.works, "" if one.works else "no answer", is_on)


class History(MachineWorld):
    """A world whose machines are really on or off."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice, self.works, self.lives = Random(seed), 0.8, 0
        super().__init__(folder, NODES)
        self.on = dict.fromkeys(self.nodes, True)
        self.turns_s: dict[str, float] = {}  # when a node comes or goes, after its machine was powered on or off
        self.under: list[str] = []  # machines that were powered off under a job

    def open(self) -> None:
        self.store, self.random_hands = Store(self.path), RandomHands(self)
        self.control = PowerControl(SETTINGS, MachineTable(self.store), self.random_hands)

    def power_off(self, name: str) -> None:
        if self.on[name]:
            self.under += [f"{name} under {self.busy[id]}" for id in [self.nodes[name].id] if id in self.busy]
            self.on[name], self.turns_s[name] = False, self.now + self.dice.uniform(0.0, 4.0)

    def power_on(self, name: str) -> None:
        if not self.on[name]:
            self.on[name], self.turns_s[name] = True, self.now + self.dice.uniform(5.0, 40.0)

    def pass_time(self) -> None:
        self.now += self.dice.uniform(0.5, 5.0)
        for name in [name for name, at in self.turns_s.items() if at <= self.now]:
            del self.turns_s[name]
            if self.on[name]:
                self.lives += 1
                self.nodes[name] = replace(self.nodes[name], id=f"{name}-{self.lives}")
                self.away.discard(name)
            else:
                self.away.add(name)

    def place_or_end_jobs(self) -> None:
        """Place a job as a round does, on a node that is in its cluster, or end one."""
        nodes = NodesSnapshot(cluster=Cluster(self.seen.cluster.nodes), ready=True)
        free = [n.id for n in with_power(nodes, self.control.machines, 1.0).cluster.nodes if n.id not in self.busy]
        if free and self.dice.random() < 0.3:
            self.busy[self.dice.choice(free)] = f"job-{self.now:.0f} is there"
        for id in [id for id in self.busy if self.dice.random() < 0.15]:
            del self.busy[id]

    def happen(self) -> None:
        """Let one random thing happen, between rounds."""
        some = self.dice.sample(sorted(self.nodes), self.dice.randint(1, 3))
        kind = self.dice.choice(("sleep", "sleep", "wake", "order", "kill", "jobs", "jobs"))
        if kind == "sleep":
            self.control.take(Advice(sleep=tuple(some)), self.now)
        elif kind == "wake":
            self.control.take(Advice(wake=tuple(some)), self.now)
        elif kind == "order":
            try:
                self.order(self.dice.choice(("sleep", "wake")), some[0])
            except PowerError:
                return
        elif kind == "kill":
            self.reopen()  # with the service its commands end; nobody is told how far they were
        else:
            self.place_or_end_jobs()


@pytest.mark.parametrize("seed", range(24))
def test_no_machine_is_powered_off_under_a_job_and_in_the_end_each_state_is_true(
    tmp_path: Path, seed: int
) -> None:
    world = History(tmp_path, seed)
    for _ in range(150):
        world.happen()
        world.control.tick(world.seen, world.now)
        world.pass_time()
    assert world.under == []
    world.works = 1.0
    for _ in range(200):
        world.control.tick(world.seen, world.now)
        world.pass_time()
    assert world.under == []
    for name, machine in world.control.machines.items():
        told = f"{machine}\n" + "\n".join(world.told())
        assert machine.state not in (LEAVING, WAKING), told
        if machine.state in (ON, ASLEEP):
            assert world.on[name] is (machine.state is ON), told
        if machine.state is FAILED:
            assert name in world.away, told
