"""What an operator says of power: how machines are powered off and on, and which ones never are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

MACHINE = "{machine}"
VERBS = ("sleep", "wake", "state")


def _words(value: Any) -> Any:
    example = 'such as [ipmitool, -H, "{machine}-bmc", chassis, power, status]'
    if isinstance(value, str):
        raise ValueError(f"{value!r} is text; give a list of words, {example}; no shell reads it")
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise ValueError(f"{value!r} is not a list of words, {example}")
    if not any(MACHINE in word for word in value):
        raise ValueError(f"none of the words {value!r} has {MACHINE}, which stands for the machine's name")
    if MACHINE in value[0]:
        raise ValueError(f"the program {value[0]!r} is named by {MACHINE}; only its arguments may be")
    return value


Words = Annotated[list[str], BeforeValidator(_words)]
Watts = Annotated[float, Field(ge=0)]


class PowerSettings(BaseModel):
    """How machines are powered off and on. Seconds unless the name says otherwise.

    adapter: `command` runs the operator's commands, `autoscaler` asks Ray's, `emulated` ends and starts emulated
        nodes.
    sleep, wake, state: commands as lists of words, in which {machine} stands for the name. `state` prints on or
        off.
    types: GPU types whose machines are powered off; None: all.
    keep: nodes of each GPU type that are never powered off: one number for all types, or one by type.
    idle_watts, asleep_watts: of one machine, for the estimate of what sleeping saves: one number, or one by type.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    adapter: Literal["command", "autoscaler", "emulated"]
    sleep: Words | None = None
    wake: Words | None = None
    state: Words | None = None
    # A command that takes longer is killed.
    command_limit_s: float = Field(default=120.0, gt=0)
    # From the command to sleep until the machine is off and Ray has lost its node.
    sleep_limit_s: float = Field(default=600.0, gt=0)
    # From the decision to wake until its node is back; after that it has failed, and another is woken.
    wake_limit_s: float = Field(default=900.0, gt=0)
    # What users are told of how long a node takes to come back.
    boot_s: float = Field(default=300.0, ge=0)
    # A command that fails is repeated so often.
    tries: int = Field(default=3, ge=1)
    # A machine that was busy, or did not fall asleep, is left alone for so long.
    rest_s: float = Field(default=600.0, ge=0)
    types: list[str] | None = None
    keep: Annotated[int, Field(ge=0)] | dict[str, Annotated[int, Field(ge=0)]] = 0
    idle_watts: Watts | dict[str, Watts] | None = None
    asleep_watts: Watts | dict[str, Watts] = 0.0

    @model_validator(mode="after")
    def _commands_fit(self) -> Self:
        given = [verb for verb in VERBS if getattr(self, verb) is not None]
        if self.adapter == "command" and (missing := [verb for verb in VERBS if verb not in given]):
            raise ValueError(f"{missing[0]}: missing; adapter 'command' needs sleep, wake and state")
        if self.adapter != "command" and given:
            raise ValueError(f"{given[0]}: is only for adapter 'command', not {self.adapter!r}")
        return self

    @property
    def by_type(self) -> Mapping[str, Mapping[str, float]]:
        """Return the fields that are given by GPU type."""
        fields = {"keep": self.keep, "idle_watts": self.idle_watts, "asleep_watts": self.asleep_watts}
        return {name: value for name, value in fields.items() if isinstance(value, dict)}

    def sleeps(self, gpu_type: str) -> bool:
        """Return whether machines of a type are ever powered off."""
        return self.types is None or gpu_type in self.types

    def kept(self, gpu_type: str) -> int:
        """Return how many nodes of a type are never powered off."""
        return self.keep.get(gpu_type, 0) if isinstance(self.keep, dict) else self.keep

    def saved_watts(self, gpu_type: str) -> float | None:
        """Return what one machine draws less while it sleeps than idle; None: its draw is not configured."""
        idle = self.idle_watts.get(gpu_type) if isinstance(self.idle_watts, dict) else self.idle_watts
        asleep = self.asleep_watts
        off = asleep.get(gpu_type, 0.0) if isinstance(asleep, dict) else asleep
        return None if idle is None else max(idle - off, 0.0)
