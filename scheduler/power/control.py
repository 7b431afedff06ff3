"""Decides what is done to machines, writes it, and only then has it done.

It takes advice from services and orders from operators. It knows neither Ray nor threads nor clocks. One thread
calls it between rounds, so that no plan is half sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ...core.cluster import Node
from ...core.errors import PowerError
from ...core.power_settings import PowerSettings
from ..services.contract import Advice
from .machine import ASLEEP, FAILED, LEAVING, WAKING, Machine
from .reactions import Answer, Do, Reaction, Sight, fall_asleep, react, settle, wake
from .rules import Seen, instead_of, substitute, why_not_asleep

BY_OPERATOR = "an operator asked for it"
NO_SETTING = "power is not set up: `coadapt up --power FILE.yaml` says how machines are powered off and on"


class Ledger(Protocol):
    """Where machines are stored."""

    def read(self) -> Mapping[str, Machine]:
        """Return all machines by name."""

    def write(self, machines: Sequence[Machine], gone: Sequence[str], told: Sequence[str], now: float) -> None:
        """Store machines, forget those that are `gone`, and log sentences: all in one transaction, or nothing."""


class Hands(Protocol):
    """Does things to machines, and answers later. It returns at once."""

    def do(self, what: Do, machine: Machine) -> None:
        """Begin something. Nothing else is under way for this machine, but for OPEN and FORGET."""

    def answers(self) -> Mapping[str, Answer]:
        """Return what has been answered since the last call, by machine."""


class PowerControl:
    """Powers machines off and on, as services advise and operators ask.

    Without settings nothing is done to any machine; what is advised is only kept to be shown.
    """

    def __init__(self, settings: PowerSettings | None, ledger: Ledger, hands: Hands) -> None:
        self._settings, self._ledger, self._hands = settings, ledger, hands
        self._under_way: dict[str, Do] = {}
        self._answers: dict[str, Answer] = {}
        self._new: list[Advice] = []
        self._first_seen: dict[str, float] = {}  # living machines; 0 for those that were there at first
        self.machines: Mapping[str, Machine] = dict(ledger.read())  # replaced as a whole, never changed
        self.advised: Mapping[str, float | None] = {}  # machines that may sleep, and until when, as last advised

    def take(self, advice: Advice, now: float) -> None:
        """Take what a service advises after a round. The next `tick` acts on it, as far as it is still right."""
        advised = {name: until for name, until in self.advised.items() if name not in advice.wake}
        if advice.sleep:
            advised = {name: advice.until_s.get(name) for name in advice.sleep if name not in advice.wake}
        self.advised = {name: until for name, until in advised.items() if until is None or until > now}
        if self._settings is not None and (advice.wake or advice.sleep):
            self._new.append(advice)

    def tick(self, seen: Seen, now: float) -> None:
        """Let every machine go on, follow new advice, and begin what is due.

        Without settings machines that an earlier service left in the middle of a change are settled.
        """
        if self._settings is None:
            turn = _Turn(self.machines)
            for _, machine in sorted(self.machines.items()):
                turn.take(settle(machine, self._sight(machine, seen), now))
            self._finish(turn, now)
            return
        self._answers |= self._hands.answers()
        for name, answer in self._answers.items():
            if self._under_way.get(name) is answer.do:
                del self._under_way[name]
        turn = _Turn(self.machines, self._settings)
        for name, machine in sorted(self.machines.items()):
            if name in turn.changed:  # it has just been woken in place of another one
                continue
            turn.take(
                react(machine, self._sight(machine, seen), self._answers.get(machine.name), self._settings, now)
            )
            after = turn.machines[machine.name]
            if (machine.state, after.state) == (WAKING, FAILED) and not self._renames:
                turn.replace_failed(after, now)
        if self._renames:
            turn.rename(seen, self._first_seen)
        later = now if self._first_seen else 0.0
        self._first_seen = {name: self._first_seen.get(name, later) for name in seen.alive}
        for advice in self._new:
            turn.follow(advice, seen, now)
        self._finish(turn, now)
        self._answers, self._new = {}, []

    def order(self, verb: str, name: str, seen: Seen, now: float) -> bool:
        """Do what an operator asks: `sleep`, `wake`, `keep`, `unkeep` or `forget`. Return whether that is new.

        Raises: KeyError for an unknown machine; PowerError, in one sentence, where it cannot be done.
        """
        machine = self.machines.get(name) or _plain(name, seen)
        if machine is None:
            raise KeyError(f"no machine {name}; `coadapt node list` shows all")
        if verb in ("keep", "unkeep"):
            kept = replace(machine, keep=verb == "keep")
            if kept == machine:
                return False
            turn = _Turn(self.machines)
            leaves = kept.keep and kept.state is LEAVING
            turn.take(wake(kept, "an operator keeps it on", now) if leaves else Reaction(kept))
            self._finish(turn, now)
            return True
        if verb == "forget":
            return self._forget(machine, seen, now)
        if self._settings is None:
            raise PowerError(NO_SETTING)
        machine = replace(machine, node=seen.usable(name) or machine.node)
        if verb == "wake":
            found = wake(machine, BY_OPERATOR, now)
        elif machine.then_wake:
            raise PowerError(f"{name} is not left asleep: it is needed again, and wakes once it is off")
        elif machine.state in (ASLEEP, LEAVING):
            return False
        else:
            rested = replace(machine, rest_until_s=0.0)  # an operator need not wait
            if (why := why_not_asleep(rested, seen, self.machines, self._settings, now)) is not None:
                raise PowerError(f"{name} is not powered off: {why}")
            found = fall_asleep(machine, BY_OPERATOR, None, now)
        if found.machine == machine:
            return False
        turn = _Turn(self.machines, self._settings)
        turn.take(found)
        self._finish(turn, now)
        return True

    def _forget(self, machine: Machine, seen: Seen, now: float) -> bool:
        """Forget a machine that will never come back."""
        if machine.name in seen.alive or machine.state not in (ASLEEP, FAILED):
            raise PowerError(f"{machine.name} is not forgotten: only a machine that sleeps or has failed can be")
        self._ledger.write([], [machine.name], [f"{machine.name} is forgotten: {BY_OPERATOR}"], now)
        self.machines = {name: one for name, one in self.machines.items() if name != machine.name}
        return True

    def known(self, seen: Seen) -> list[Machine]:
        """Return every machine, also those that nothing was ever done to, by name."""
        plain = [found for name in seen.alive if name not in self.machines and (found := _plain(name, seen))]
        return sorted([*self.machines.values(), *plain], key=lambda one: one.name)

    @property
    def _renames(self) -> bool:
        """Return whether a machine comes back under another name, as those of Ray's autoscaler may."""
        return self._settings is not None and self._settings.adapter == "autoscaler"

    def _sight(self, machine: Machine, seen: Seen) -> Sight:
        ids = seen.alive.get(machine.name, ())
        busy = next((seen.busy[id] for id in ids if id in seen.busy), "")
        return Sight(ids, seen.usable(machine.name), busy, self._under_way.get(machine.name))

    def _finish(self, turn: _Turn, now: float) -> None:
        """Write what has changed, then do what it takes."""
        stored = [turn.machines[name] for name in sorted(turn.changed)]
        if stored or turn.told:
            kept, gone = [one for one in stored if not one.is_plain], [one.name for one in stored if one.is_plain]
            self._ledger.write(kept, [*gone, *turn.gone], turn.told, now)
            self.machines = {name: one for name, one in turn.machines.items() if not one.is_plain}
        for name, what in turn.to_do:
            if name not in turn.machines:
                continue
            if what in (Do.OPEN, Do.FORGET):
                self._hands.do(what, turn.machines[name])
            elif name not in self._under_way:  # else what is under way is answered first
                self._under_way[name] = what
                self._hands.do(what, turn.machines[name])


class _Turn:
    """What one turn changes."""

    def __init__(self, machines: Mapping[str, Machine], settings: PowerSettings | None = None) -> None:
        self.machines = dict(machines)
        self.changed: set[str] = set()
        self.told: list[str] = []
        self.gone: list[str] = []
        self.to_do: list[tuple[str, Do]] = []
        self._settings = settings

    def take(self, reaction: Reaction) -> None:
        """Take what becomes of one machine."""
        machine = reaction.machine
        if self.machines.get(machine.name) != machine:
            self.machines[machine.name] = machine
            self.changed.add(machine.name)
        if reaction.told:
            self.told.append(reaction.told)
        if reaction.do is not None:
            self.to_do.append((machine.name, reaction.do))

    def replace_failed(self, failed: Machine, now: float) -> None:
        """Wake another machine in place of one that has failed."""
        if (other := substitute(failed, self.machines.values())) is not None:
            self.take(wake(other, f"in place of {failed.name}, which did not come back", now))

    def rename(self, seen: Seen, first_seen: Mapping[str, float]) -> None:
        """Forget machines that wake and whose places new machines of the same kind have taken."""
        waking = [one for one in self.machines.values() if one.state is WAKING and one.name not in seen.alive]
        new = [name for name in seen.alive if name not in self.machines and seen.usable(name) is not None]
        for machine in sorted(waking, key=lambda one: (one.since_s or 0.0, one.name)):
            began_s = machine.since_s or 0.0
            for name in sorted(new):
                node = seen.usable(name)
                if (
                    node is not None
                    and first_seen.get(name, began_s) >= began_s
                    and _kind(node) == _kind(machine.node)
                ):
                    new.remove(name)
                    del self.machines[machine.name]
                    self.changed.discard(machine.name)
                    self.gone.append(machine.name)
                    self.told.append(f"{name} has come in place of {machine.name}")
                    break

    def follow(self, advice: Advice, seen: Seen, now: float) -> None:
        """Wake and power off what a service advises, as far as it is right now."""
        for name in dict.fromkeys(advice.wake):
            if (machine := self.machines.get(name)) is not None and machine.state is not FAILED:
                self.take(wake(machine, _reason(advice, name, "it is needed"), now))
        spoken_of = {*advice.wake, *advice.sleep}
        for name in dict.fromkeys(advice.sleep):
            machine = self.machines.get(name) or _plain(name, seen)
            if machine is None or name in advice.wake or self._settings is None:
                continue
            machine = replace(machine, node=seen.usable(name) or machine.node)
            if why_not_asleep(machine, seen, self.machines, self._settings, now) is not None:
                # A service goes by counts and may name one that is kept; another idle one does as well.
                other = instead_of(machine, spoken_of, seen, self.machines, self._settings, now)
                if other is None:
                    continue
                machine = other
                spoken_of.add(machine.name)
            reason = _reason(advice, name, "nobody needs it")
            self.take(fall_asleep(machine, reason, advice.until_s.get(name), now))


def _reason(advice: Advice, name: str, otherwise: str) -> str:
    return advice.reasons.get(name, "").strip().rstrip(".") or otherwise


def _kind(node: Node) -> tuple[str, str, int]:
    return node.pool, node.gpu_type, node.gpus


def _plain(name: str, seen: Seen) -> Machine | None:
    ids: Iterable[str] = seen.alive.get(name, ())
    node = next((found for id in ids if (found := seen.cluster.by_id.get(id)) is not None), None)
    return None if node is None else Machine(name, node)
