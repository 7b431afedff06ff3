"""Goes on from a checkpoint of another job or life, whose script may have set its optimizers up otherwise.

A checkpoint holds what optimizers and schedulers had come to, learning rates included. Where the changed
script says something else than the script before did, what it says now counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...protocol.messages import JOB_ID, JOB_LIFE

if TYPE_CHECKING:
    import torch

    from .prepared import Prepared

Options = list[dict[str, Any]]  # of each parameter group of an optimizer


def options_of(optimizer: torch.optim.Optimizer) -> Options:
    """Return the options that an optimizer was made with: plain values, and the first learning rate."""
    return [_plain(group) for group in optimizer.param_groups]


def _plain(group: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in group.items() if isinstance(value, bool | int | float | tuple)}
    if "initial_lr" in found:  # a scheduler has changed `lr` by now
        found["lr"] = found.pop("initial_lr")
    return found


def whose() -> list[str]:
    """Return the job of this process, and which of its lives it is; a checkpoint keeps that."""
    return [os.environ.get(JOB_ID, ""), os.environ.get(JOB_LIFE, "0")]


def forked(state: Mapping[str, Any]) -> bool:
    """Return whether a state is of another job or of an earlier life. Earlier versions did not say."""
    return bool(state.get("job")) and list(state["job"]) != whose()


def go_on_as_fork(state: dict[str, Any], options: Sequence[Options], prepared: Prepared) -> None:
    """Change a state of another job or life so that this one trains on with its own options, and to its own end.

    Args:
        options: what the optimizers of this job's script were made with.
    """
    if state["job"][0] != whose()[0]:
        state["position"] = {**state["position"], "target_reached": False, "ended": False}
    for at, (before, now) in enumerate(zip(state["options"], options, strict=False)):
        if at >= len(state["optimizers"]):
            return
        groups = state["optimizers"][at]["param_groups"]
        for number, (old, new) in enumerate(zip(before, now, strict=False)):
            if number >= len(groups):
                break
            changed = {name: new[name] for name in old.keys() & new.keys() if old[name] != new[name]}
            if "lr" in changed:
                _change_rate(state, prepared, at, number, old["lr"], changed.pop("lr"))
            for name, value in sorted(changed.items()):
                groups[number][name] = value
                _tell(name, old[name], value)


def _change_rate(state: dict[str, Any], prepared: Prepared, at: int, number: int, old: float, new: float) -> None:
    """Scale the learning rate of a group to the script's own, where its schedule has come to."""
    group = state["optimizers"][at]["param_groups"][number]
    scale = new / old if old else 0.0
    group["lr"] = group["lr"] * scale if old else new
    if "initial_lr" in group:
        group["initial_lr"] = new
    for scheduler, known in zip(prepared.schedulers, state["schedulers"], strict=False):
        if getattr(scheduler, "optimizer", None) is prepared.optimizers[at]:
            for name, value in (("base_lrs", new), ("_last_lr", group["lr"])):
                if name in known and number < len(known[name]):
                    known[name] = [value if one == number else rate for one, rate in enumerate(known[name])]
    _tell("lr", old, new)


def _tell(name: str, old: object, new: object) -> None:
    print(f"coadapt: goes on with {name} {new}; the checkpoint is of {old}", file=sys.stderr)
