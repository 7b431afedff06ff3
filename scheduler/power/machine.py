"""One machine as power knows it, whose node may not be there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from ...core.cluster import Node
from ...core.machine_states import MachineState
from ...core.power_settings import PowerSettings

ON, LEAVING, ASLEEP, WAKING, FAILED = MachineState


class Step(StrEnum):
    """How far the change of a machine is. It is stored before anyone acts on it."""

    NONE = ""
    LOOK = "look"  # whether anything else runs there is still to be found out
    COMMAND = "command"  # the command was sent, or is about to be
    WAIT = "wait"  # it was done, and what follows from it is awaited


@dataclass(frozen=True)
class Machine:
    """What is stored of a machine. Moments are seconds since 1970.

    node: its node as it was last seen.
    since_s: when its state began; None: nothing was ever done to it.
    reason: why it is in this state, one sentence.
    until_s: until when nobody is likely to need it.
    tries: commands of this change that failed or came to nothing.
    asked_s: when the last command of this change was done.
    again_s: nothing is done to it before this moment.
    rest_until_s: it is not powered off before this moment.
    then_wake: it is needed again while it still leaves.
    slept_s: over all its sleeps that have ended.
    woken: it is on because it was woken from here.
    """

    name: str
    node: Node
    state: MachineState = ON
    since_s: float | None = None
    step: Step = Step.NONE
    reason: str = ""
    until_s: float | None = None
    keep: bool = False
    tries: int = 0
    asked_s: float = 0.0
    again_s: float = 0.0
    rest_until_s: float = 0.0
    then_wake: bool = False
    slept_s: float = 0.0
    woken: bool = False

    def turned(self, state: MachineState, now: float, reason: str, **changes: Any) -> Machine:
        """Return the machine at the beginning of another state."""
        slept_s = self.slept_s + (self.for_s(now) if self.state is ASLEEP else 0.0)
        begun = replace(
            self,
            state=state,
            since_s=now,
            step=Step.NONE,
            reason=reason,
            until_s=None,
            tries=0,
            asked_s=0.0,
            again_s=0.0,
            then_wake=False,
            slept_s=slept_s,
            woken=False,
        )
        return replace(begun, **changes)

    def for_s(self, now: float) -> float:
        """Return seconds since its state began."""
        return 0.0 if self.since_s is None else max(now - self.since_s, 0.0)

    @property
    def is_plain(self) -> bool:
        """Whether nothing of it has to be stored."""
        return self.state is ON and self.since_s is None and not self.keep

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Machine:
        """Return what `to_json` wrote. Raises: ValueError, KeyError or TypeError for any other text."""
        row = json.loads(text)
        return cls(
            **row | {"node": Node(**row["node"]), "state": MachineState(row["state"]), "step": Step(row["step"])}
        )


def saved_kwh(machines: Mapping[str, Machine], settings: PowerSettings | None, now: float) -> float | None:
    """Return kWh that machines have saved by sleeping, by configured watts; None: there are none, or none slept.

    Only time in which a machine is known to be off counts: not while it leaves or boots.
    """
    if settings is None:
        return None
    told = [
        (machine.slept_s + (machine.for_s(now) if machine.state is ASLEEP else 0.0), watts)
        for machine in machines.values()
        if (watts := settings.saved_watts(machine.node.gpu_type)) is not None
    ]
    slept = [(seconds, watts) for seconds, watts in told if seconds > 0]
    return sum(seconds * watts for seconds, watts in slept) / 3.6e6 if slept else None
