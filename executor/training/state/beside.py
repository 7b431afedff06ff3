"""What a script changes beside its model when it is done with a batch: averages, teachers, counters of its own.

A batch that takes several passes, or has to be done again, changes them once too often. So their state before
the batch is kept, and put back before the batch is given again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..variables.script_frames import is_metric, script_objects
from .prepared import Prepared, Stateful

# So many elements are kept for every batch of a group, in case that it loses a member.
FEW = 1 << 20


class Beside:
    """The state of all that is not trained itself, before a batch. Not `full`: only what costs little.

    `several`: the batch takes several passes. Running statistics move once for it, by the mean of all passes.
    """

    @torch.no_grad()
    def __init__(
        self,
        prepared: Prepared,
        full: bool,
        several: bool = False,
        earlier: Beside | None = None,
        followers: Iterable[Tensor] = (),
    ) -> None:
        """Keep the state. `earlier`: one of the same pass over the data, which is not needed any more."""
        self._options = [(group, _options_of(group)) for opt in prepared.optimizers for group in opt.param_groups]
        rates = [value for _, options in self._options for value in options.values() if isinstance(value, Tensor)]
        self._kept: list[tuple[Tensor, Tensor]] = [(live, live.detach().clone()) for live in (*rates, *followers)]
        self._users: list[tuple[Stateful, dict[str, Any]]] = []
        if full:
            trained = {id(module) for model in prepared.modules for module in model.modules()}
            found = [m for m in script_objects(nn.Module) if id(m) not in trained and not is_metric(m)]
            others = [*prepared.companions, *found]
            self._kept += [(live, live.detach().clone()) for live in _tensors_of(others)]
            self._users = [(user, copy.deepcopy(user.state_dict())) for user in prepared.users]
        self._statistics: list[Tensor] = earlier._statistics if earlier is not None else _statistics_of(prepared)
        self._before: list[Tensor] = (
            earlier._before if earlier is not None else [torch.empty_like(live) for live in self._statistics]
        )
        if self._statistics:
            torch._foreach_copy_(self._before, self._statistics)
        self._moved = [torch.zeros_like(before) for before in self._before] if several else []
        self._samples = 0

    @torch.no_grad()
    def restore(self) -> None:
        for group, options in self._options:
            group.update(options)
        for live, before in self._kept:
            live.data.copy_(before)  # a script may have replaced it
        if self._statistics:
            torch._foreach_copy_(self._statistics, self._before)
        for user, state in self._users:
            user.load_state_dict(copy.deepcopy(state))

    @torch.no_grad()
    def pass_done(self, samples: int, last: bool) -> None:
        """End a pass of so many samples, and put all back before a further one."""
        self._samples += samples
        for moved, live, before in zip(self._moved, self._statistics, self._before, strict=True):
            if live.is_floating_point():
                moved.add_(live - before, alpha=samples)
                if last:
                    live.copy_(before + moved / self._samples)
        if not last:
            self.restore()


class Followers:
    """Frozen parameters of the models that a script moves itself, such as those of a slow copy of an encoder."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._seen: dict[Tensor, tuple[int, int]] = {}
        self.moving: dict[Tensor, None] = {}

    def look(self) -> Iterable[Tensor]:
        """Return those that have ever moved between two looks."""
        for parameter in self._prepared.parameters():
            if not parameter.requires_grad and parameter not in self.moving:
                now = parameter.data_ptr(), parameter._version
                if self._seen.setdefault(parameter, now) != now:
                    self.moving[parameter] = None
        return list(self.moving)


def _statistics_of(prepared: Prepared) -> list[Tensor]:
    return [buffer for buffer in prepared.buffers() if buffer.numel() <= FEW]


def _options_of(group: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter group's rates and other options; a tensor itself, whose value is kept apart."""
    return {name: value for name, value in group.items() if name != "params"}


def is_small(prepared: Prepared) -> bool:
    """Return whether it costs little to keep everything for each batch."""
    return sum(tensor.numel() for tensor in _tensors_of(prepared.companions)) <= FEW


def _tensors_of(modules: Iterable[nn.Module]) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    for module in modules:
        for tensor in [*module.parameters(), *module.buffers()]:
            found[id(tensor)] = tensor
    return list(found.values())
