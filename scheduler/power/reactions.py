"""What becomes of one machine, by what is seen of it and what was answered. Pure.

`react` is called again and again. A change that a killed service has left is found by its stored step.
If no command is under way, the machine is asked for its state first. The change goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from ...core.cluster import Node
from ...core.power_settings import PowerSettings
from ...core.wording import n_gpus
from .machine import ASLEEP, FAILED, LEAVING, ON, WAKING, Machine, Step

RETRY_S = 10.0  # before a command that failed is repeated
RECHECK_S = 15.0  # before a machine is asked again for its state
BLIP_S, GONE_S = 5.0, 60.0  # after so long without its node a machine that has just woken, or another one, is lost

NOBODY = "power is not set up any more"


class Do(StrEnum):
    """What is done to a machine. `LOOK` closes its node to others, and tells whether anything runs there."""

    LOOK = "look"
    OPEN = "open"  # give back what LOOK took
    SLEEP = "sleep"
    WAKE = "wake"
    STATE = "state"
    FORGET = "forget"  # remove what is left of a node that is gone


@dataclass(frozen=True)
class Answer:
    """How a command went.

    ok: of LOOK: nothing runs there. Of SLEEP and WAKE: it was done. Of STATE: the state is known.
    text: why not, part of a sentence.
    is_on: of STATE that is known.
    """

    do: Do
    ok: bool
    text: str = ""
    is_on: bool | None = None


@dataclass(frozen=True)
class Sight:
    """What is seen of a machine.

    alive: ids of its living nodes; more than one: several machines have its name.
    usable: its node, if jobs may be placed there.
    busy: what of ours is on it; empty: nothing.
    under_way: what is being done to it.
    """

    alive: tuple[str, ...] = ()
    usable: Node | None = None
    busy: str = ""
    under_way: Do | None = None


@dataclass(frozen=True)
class Reaction:
    """The machine afterwards, a line for the log, and what to do once both are stored."""

    machine: Machine
    told: str = ""
    do: Do | None = None


def fall_asleep(machine: Machine, reason: str, until_s: float | None, now: float) -> Reaction:
    """Begin to power a machine off. Whether it may be is known."""
    leaving = machine.turned(LEAVING, now, reason, until_s=until_s, step=Step.LOOK)
    return Reaction(leaving, f"{machine.name} is to sleep: {reason}", Do.LOOK)


def wake(machine: Machine, reason: str, now: float) -> Reaction:
    """Begin to wake a machine that is not on. One that has not been powered off yet stays."""
    if machine.state in (ON, WAKING):
        return Reaction(machine)
    if machine.state is LEAVING:
        if machine.step is Step.LOOK:
            stays = machine.turned(ON, now, reason)
            return Reaction(stays, f"{machine.name} stays on: {reason}", Do.OPEN)
        return Reaction(machine if machine.then_wake else replace(machine, then_wake=True))
    return _wake(machine, reason, now)


def _wake(machine: Machine, reason: str, now: float) -> Reaction:
    return Reaction(
        machine.turned(WAKING, now, reason, step=Step.COMMAND), f"{machine.name} is woken: {reason}", Do.WAKE
    )


def react(machine: Machine, seen: Sight, answer: Answer | None, settings: PowerSettings, now: float) -> Reaction:
    """Return what becomes of a machine. `answer`: of what was done to it last, once."""
    if machine.state is LEAVING:
        return _leaving(machine, seen, answer, settings, now)
    if seen.usable is not None:
        return _is_there(machine, seen.usable, now)
    if machine.state is WAKING:
        return _waking(machine, seen, answer, settings, now)
    if machine.state is ON and not machine.is_plain:
        return _without_node(machine, seen, settings, now)
    return Reaction(machine)


def _is_there(machine: Machine, node: Node, now: float) -> Reaction:
    """Take a machine back whose node may be used, also with other GPUs than it had."""
    now_has, had = _gpus(node), _gpus(machine.node)
    other = f"; it has {now_has} now, and had {had}" if now_has != had else ""
    if node != machine.node or machine.again_s:
        machine = replace(machine, node=node, again_s=0.0)
    if machine.state is ON:
        return Reaction(machine, f"{machine.name} has come back{other}" if other else "")
    if machine.state is WAKING:
        told = f"{machine.name} is awake after {machine.for_s(now):.0f} s{other}"
    elif machine.state is FAILED:
        told = f"{machine.name} has come back after all{other}"
    else:
        told = f"{machine.name} is on, and was not woken from here{other}"
    woken = machine.state is WAKING
    return Reaction(machine.turned(ON, now, machine.reason if woken else "it came back", woken=woken), told)


def _without_node(machine: Machine, seen: Sight, settings: PowerSettings, now: float) -> Reaction:
    """Look for how long the node of a machine that is on has been away.

    One that has just woken is woken again. Another one may have been switched off by somebody who works on it.
    """
    if machine.woken and machine.for_s(now) < settings.wake_limit_s:
        return _away(machine, seen, BLIP_S, now) or _wake(machine, "its node has gone soon after it came", now)
    return _away(machine, seen, GONE_S, now) or _fail(machine, "its node has gone", now)


def _away(machine: Machine, seen: Sight, wait_s: float, now: float) -> Reaction | None:
    """Wait for the node of a machine that is on; None: it has been away for so long."""
    if seen.alive:
        return Reaction(replace(machine, again_s=0.0) if machine.again_s else machine)
    if not machine.again_s:
        return Reaction(replace(machine, again_s=now + wait_s))
    return Reaction(machine) if now < machine.again_s else None


def _gpus(node: Node) -> str:
    return f"{n_gpus(node.gpus)} of type {node.gpu_type}"


def settle(machine: Machine, seen: Sight, now: float) -> Reaction:
    """Return what becomes of a machine that nobody powers any more: it is on if its node is there."""
    if machine.state is ON:
        return _away(machine, seen, GONE_S, now) or _fail(machine, "its node has gone", now)
    leaves = machine.state is LEAVING
    if seen.usable is not None or (leaves and seen.alive):
        on = replace(machine, node=seen.usable or machine.node).turned(ON, now, NOBODY)
        return Reaction(on, f"{machine.name} is on: {NOBODY}", Do.OPEN if leaves else None)
    if (leaves or machine.state is WAKING) and not seen.alive:
        return _fail(machine, f"its node is not there, and {NOBODY}", now)
    return Reaction(machine)


# --- falling asleep ---------------------------------------------------------------------------------------


def _leaving(
    machine: Machine, seen: Sight, answer: Answer | None, settings: PowerSettings, now: float
) -> Reaction:
    stay = _Stay(machine, settings, now)
    if machine.step is Step.LOOK:
        return _looking(machine, seen, answer, settings, stay, now)
    if machine.step is Step.COMMAND:
        return _powering_off(machine, seen, answer, settings, stay, now)
    return _is_it_off(machine, seen, answer, settings, stay, now)


@dataclass(frozen=True)
class _Stay:
    """Gives up powering a machine off: its node is there, and jobs may use it again."""

    machine: Machine
    settings: PowerSettings
    now: float

    def __call__(self, why: str) -> Reaction:
        on = self.machine.turned(ON, self.now, why, rest_until_s=self.now + self.settings.rest_s)
        return Reaction(on, f"{on.name} stays on: {why}", Do.OPEN)


def _looking(
    machine: Machine,
    seen: Sight,
    answer: Answer | None,
    settings: PowerSettings,
    stay: Callable[[str], Reaction],
    now: float,
) -> Reaction:
    if answer is not None and answer.do is Do.LOOK and not answer.ok:
        return stay(answer.text)
    if seen.busy:
        return stay(seen.busy)
    if len(seen.alive) > 1:
        return stay(f"{len(seen.alive)} nodes have this machine name")
    if seen.under_way is not None or now < machine.again_s:
        return Reaction(machine)
    if not seen.alive:  # it has gone by itself
        return Reaction(replace(machine, step=Step.COMMAND), do=Do.STATE)
    if machine.then_wake:
        # As if woken: it is woken anew if the command that failed has powered it off all the same.
        needed = machine.turned(ON, now, "it is needed again", woken=True)
        return Reaction(needed, f"{machine.name} stays on: it is needed again", Do.OPEN)
    if machine.tries >= settings.tries:
        return stay(machine.reason)
    if answer is not None and answer.do is Do.LOOK:
        return Reaction(replace(machine, step=Step.COMMAND), do=Do.SLEEP)
    return Reaction(machine, do=Do.LOOK)


def _powering_off(
    machine: Machine,
    seen: Sight,
    answer: Answer | None,
    settings: PowerSettings,
    stay: Callable[[str], Reaction],
    now: float,
) -> Reaction:
    if answer is None:
        return Reaction(machine, do=None if seen.under_way else Do.STATE)
    if answer.do is Do.SLEEP and answer.ok:
        return Reaction(replace(machine, step=Step.WAIT, asked_s=now, again_s=now))
    if answer.do is Do.STATE and answer.ok and not answer.is_on:
        return Reaction(replace(machine, step=Step.WAIT, asked_s=now, again_s=now))
    failed = answer.do is Do.SLEEP
    machine = replace(machine, tries=machine.tries + failed)
    if seen.alive:
        # A command may fail and power the machine off all the same, as where a connection ends too soon.
        why = f"it could not be powered off: {answer.text}" if failed else machine.reason
        return Reaction(replace(machine, step=Step.LOOK, again_s=now + RETRY_S * failed, reason=why))
    if machine.tries >= settings.tries:
        return _wake(machine, "its node is gone, and it could not be powered off", now)
    if failed:
        return Reaction(machine, do=Do.STATE)
    return Reaction(replace(machine, tries=machine.tries + 1), do=Do.SLEEP)


def _is_it_off(
    machine: Machine,
    seen: Sight,
    answer: Answer | None,
    settings: PowerSettings,
    stay: Callable[[str], Reaction],
    now: float,
) -> Reaction:
    late = now - machine.asked_s > settings.sleep_limit_s
    if seen.alive:
        return stay("it was said to be off, and its node still answers") if late else Reaction(machine)
    if answer is not None and answer.do is Do.STATE:
        if answer.ok and not answer.is_on:
            if machine.then_wake:
                return _wake(machine, "it is needed again", now)
            asleep = machine.turned(ASLEEP, now, machine.reason, until_s=machine.until_s)
            return Reaction(asleep, f"{machine.name} sleeps", Do.FORGET)
        if late:
            why = "it is still on" if answer.ok else f"its state is not known: {answer.text}"
            return _wake(machine, f"its node is gone, and {why}", now)
        return Reaction(replace(machine, again_s=now + min(RECHECK_S, settings.sleep_limit_s / 4)))
    if seen.under_way is not None or now < machine.again_s:
        return Reaction(machine)
    return Reaction(machine, do=Do.STATE)


# --- waking -----------------------------------------------------------------------------------------------


def _waking(machine: Machine, seen: Sight, answer: Answer | None, settings: PowerSettings, now: float) -> Reaction:
    if machine.for_s(now) > settings.wake_limit_s:
        return _fail(machine, f"it did not come back in {settings.wake_limit_s:.0f} s", now)
    if answer is not None and answer.do is Do.WAKE:
        if answer.ok:
            waits = replace(machine, step=Step.WAIT, asked_s=now, again_s=now + RECHECK_S)
            return Reaction(waits)
        machine = replace(machine, tries=machine.tries + 1, again_s=now + RETRY_S)
        if machine.tries >= settings.tries:
            return _fail(machine, f"it could not be woken: {answer.text}", now)
        return Reaction(machine, f"{machine.name} could not be woken, and is tried again: {answer.text}")
    if answer is not None and answer.do is Do.STATE:
        # A machine that is on for long and has no node is woken again, which does no harm.
        lost = now - machine.asked_s > max(2 * settings.boot_s, 4 * RECHECK_S)
        if machine.step is Step.COMMAND or not (answer.ok and answer.is_on) or lost:
            if machine.step is Step.COMMAND and answer.ok and answer.is_on and not machine.tries:
                return Reaction(replace(machine, step=Step.WAIT, asked_s=now, again_s=now + RECHECK_S))
            return Reaction(replace(machine, step=Step.COMMAND), do=Do.WAKE)
        return Reaction(replace(machine, again_s=now + RECHECK_S))
    if seen.under_way is not None or now < machine.again_s or seen.alive:
        return Reaction(machine)
    return Reaction(machine, do=Do.STATE)


def _fail(machine: Machine, why: str, now: float) -> Reaction:
    return Reaction(machine.turned(FAILED, now, why), f"{machine.name} has failed: {why}", Do.FORGET)
