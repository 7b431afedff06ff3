"""Power in the service: what is seen of nodes, what is stored of machines, and what is shown of both."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

from ...core.cluster import Node
from ...core.errors import PowerError
from ...core.power_settings import MACHINE, VERBS, PowerSettings
from ...core.schemas import MachineRow
from ...core.settings import Settings
from ..power import closing
from ..power.adapter import Adapter, AdapterError
from ..power.autoscaler import Autoscaler, AutoscalerWishes
from ..power.commands import Commands
from ..power.control import NO_SETTING, Hands, PowerControl
from ..power.hands import PowerHands
from ..power.machine import ASLEEP, FAILED, LEAVING, ON, WAKING, Machine, saved_kwh
from ..power.reactions import Do
from ..power.rules import Seen
from ..runtime import ray_private
from ..services.contract import Advice
from ..store.store import Store
from .machine_table import MachineTable
from .node_source import NodeSource
from .node_view import lease_name
from .powered_nodes import PoweredNodes, seen_of

EMULATED_MACHINES = "coadapt.deploy.emulated_power"  # the program that ends and starts emulated nodes


class Powering:
    """Powers machines of one cluster, and knows the nodes as jobs may use them.

    Args:
        view: the nodes as Ray shows them.
        woken: called when a machine has answered.
        hands: what does things to machines instead of the adapter of the settings.
        wishes: asks Ray's autoscaler, also for others.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        view: NodeSource,
        woken: Callable[[], None] = lambda: None,
        hands: Hands | None = None,
        wishes: AutoscalerWishes | None = None,
    ) -> None:
        self._settings, self._view = settings.power, view
        self._wishes = wishes or AutoscalerWishes()
        self._hands = hands or self._make_hands(settings, woken)
        self.control = PowerControl(settings.power, MachineTable(store), self._hands)
        boot_s = settings.power.boot_s if settings.power is not None else 0.0
        self.nodes = PoweredNodes(view, lambda: self.control.machines, boot_s)
        self._begun = False

    def take(self, advice: Advice, now: float) -> None:
        """Take what a service advises after a round."""
        self.control.take(advice, now)

    def tick(self, busy: Callable[[], Mapping[str, str]], now: float) -> bool:
        """Let machines go on, and return whether something has changed. Call it between rounds.

        Args:
            busy: returns what is on each node, by its id.
        """
        if not self._view.snapshot.ready or (self._settings is None and not self.control.machines):
            return False
        before = self.control.machines
        if not self._begun and isinstance(self._hands, PowerHands):
            self._hands.begin(
                frozenset(one.node.id for one in self.control.machines.values() if self._is_to_leave(one))
            )
        self._begun = True
        self.control.tick(self._seen(busy()), now)
        return self.control.machines is not before

    def order(self, verb: str, name: str, busy: Mapping[str, str], now: float) -> bool:
        """Do what an operator asks of a machine. Raises: as `PowerControl.order` does."""
        if not self._view.snapshot.ready:
            raise PowerError(
                f"{name} is left as it is: the service has just started, and still looks for its nodes"
            )
        return self.control.order(verb, name, self._seen(busy), now)

    def keeps(self, machine: str) -> bool:
        """Return whether an operator keeps a machine on."""
        found = self.control.machines.get(machine)
        return found is not None and found.keep

    @property
    def unleased(self) -> frozenset[str]:
        """Return the machines whose nodes must not be leased, so that Ray's autoscaler finds them idle."""
        if self._settings is None or self._settings.adapter != "autoscaler":
            return frozenset()
        return frozenset(name for name, one in self.control.machines.items() if one.state is LEAVING)

    # --- what is shown ----------------------------------------------------------------------------------------

    def rows(self) -> list[MachineRow]:
        """Return every machine, by name."""
        seen = self._seen({})
        return [machine_row(machine, seen) for machine in self.control.known(seen)]

    def asleep(self) -> list[MachineRow]:
        """Return the machines whose nodes are not there for jobs, by name."""
        seen = self._seen({})
        here = {node.machine_name for node in self.nodes.snapshot.cluster.nodes}
        away = (one for one in self.control.known(seen) if one.state is not ON and one.name not in here)
        return [machine_row(one, seen) for one in away]

    def saved_kwh(self, now: float) -> float | None:
        """Return what machines have saved by sleeping; None: it is not known."""
        return saved_kwh(self.control.machines, self._settings, now)

    def notes(self, busy: Callable[[], Mapping[str, str]], now: float, ahead_s: float = 0.0) -> list[str]:
        """Return sentences on machines for `coadapt cluster`.

        Args:
            busy: of `tick`.
            ahead_s: by how much the machine's clock is ahead of `now`.
        """
        advised = self.control.advised if self._settings is None else {}
        seen = self._seen(busy() if advised else {})
        kept = {name for name, one in self.control.machines.items() if one.keep}
        free = {name: until for name, until in advised.items() if name not in kept}
        notes = could_be_off(free, seen, now, ahead_s)
        for name, ids in sorted(seen.alive.items()):
            if self._settings is not None and len(ids) > 1:
                notes.append(
                    f"{len(ids)} nodes have the machine name {name}, so that neither is powered off; "
                    "the label coadapt.io/machine gives each its own"
                )
        notes += self._unknown_types(seen)
        for one in self.control.machines.values():
            if one.state is FAILED:
                again = f"; `coadapt node wake {one.name}` tries again" if self._settings is not None else ""
                notes.append(f"{one.name} has failed: {one.reason}{again}")
            elif one.state is ASLEEP and self._settings is None:
                notes.append(f"{one.name} sleeps, and nobody wakes it: {NO_SETTING}")
        return notes

    def _unknown_types(self, seen: Seen) -> list[str]:
        """Return a sentence for each GPU type of the settings that no machine has, as one that is misspelt."""
        types = sorted({one.node.gpu_type for one in self.control.known(seen)})
        fields = {} if self._settings is None or not types else self._settings.by_type
        return [
            f"{field} of the power file names {gpu_type}, which no machine has; known: {', '.join(types)}"
            for field, values in fields.items()
            for gpu_type in sorted(set(values) - set(types))
        ]

    # --- inside -----------------------------------------------------------------------------------------------

    def _is_to_leave(self, machine: Machine) -> bool:
        return self._settings is not None and machine.state is LEAVING

    def _seen(self, busy: Mapping[str, str]) -> Seen:
        return seen_of(self._view.snapshot, busy)

    def _make_hands(self, settings: Settings, woken: Callable[[], None]) -> Hands:
        power = settings.power
        if power is None:
            return _NoHands(lease_name)
        return PowerHands(self._adapter(power, settings.state_dir), lease_name, ray_private, woken)

    def _adapter(self, power: PowerSettings, state_dir: str) -> Adapter:
        if power.adapter == "autoscaler":
            return Autoscaler(self._wanted, lambda node: closing.forget(node, lease_name(node.id)), self._wishes)
        if power.adapter == "emulated":
            program = [sys.executable, "-m", EMULATED_MACHINES]
            words = {verb: [*program, verb, MACHINE, "--state-dir", state_dir] for verb in VERBS}
        else:
            words = {verb: getattr(power, verb) for verb in VERBS}
        commands = Commands(words, power.command_limit_s, state_dir)
        commands.end_left_over()
        return commands

    def _wanted(self) -> Sequence[Node]:
        """Return the nodes that shall be there."""
        machines = self.control.machines
        here = [node for node in self._view.snapshot.cluster.nodes if _stays(machines.get(node.machine_name))]
        return [*here, *(one.node for one in machines.values() if one.state is WAKING)]


def _stays(machine: Machine | None) -> bool:
    return machine is None or machine.state is ON


def machine_row(machine: Machine, seen: Seen) -> MachineRow:
    """Return a machine as it is shown."""
    ids, node = seen.alive.get(machine.name, ()), machine.node
    return MachineRow(
        machine=machine.name,
        node=ids[0] if ids else None,
        state=machine.state.value,
        since_s=machine.since_s,
        until_s=machine.until_s,
        keep=machine.keep,
        reason=f"{len(ids)} nodes have this machine name" if len(ids) > 1 else machine.reason,
        gpu_type=node.gpu_type,
        pool=node.pool,
        gpus=node.gpus,
        cpus=node.cpus,
        memory_gib=node.memory_gib,
        emulated=node.emulated,
        closed="",
        leaves=False,
        deadline_s=None,
    )


def could_be_off(advised: Mapping[str, float | None], seen: Seen, now: float, ahead_s: float = 0.0) -> list[str]:
    """Return a line on nodes that nobody needs for now, as far as nothing runs on them. `ahead_s`: as above."""
    free = {
        name: until
        for name, until in advised.items()
        if (node := seen.usable(name)) is not None
        and node.id not in seen.busy
        and node.id not in seen.homes
        and (until is None or until > now)
    }
    if not free:
        return []
    known = [until for until in free.values() if until is not None]
    until = f" until about {time.strftime('%H:%M', time.localtime(min(known) + ahead_s))}" if known else " now"
    return [f"{len(free)} node{'s' * (len(free) > 1)} could be off{until}: {', '.join(sorted(free))}"]


class _NoHands(PowerHands):
    """Powers nothing, where there is no setting of power. It only gives back what an earlier service took."""

    def __init__(self, lease_name: Callable[[str], str]) -> None:
        super().__init__(_NoAdapter(), lease_name, ray_private)

    def do(self, what: Do, machine: Machine) -> None:
        if what not in (Do.OPEN, Do.FORGET):
            raise AssertionError(f"power is not set up, and {what.value} of {machine.name} was asked for")
        super().do(what, machine)


class _NoAdapter:
    """Can do nothing to a machine."""

    def sleep(self, machine: Machine) -> None:
        raise AdapterError(NO_SETTING)

    def wake(self, machine: Machine) -> None:
        raise AdapterError(NO_SETTING)

    def is_on(self, machine: Machine) -> bool:
        raise AdapterError(NO_SETTING)
