"""How large activations are in the first steps of a training, to compare them over widths."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from .layers import layers_of

VARIABLE = "COADAPT_ACTIVATIONS"  # the file that is written after STEPS steps
STEPS = 4


class Activations:
    """Notes the mean size |x| of what each layer gives, in the first pass before each of a few steps.

    sizes: by layer, one number for each step that has begun.
    """

    def __init__(self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer], steps: int = STEPS) -> None:
        self.sizes: dict[str, list[float]] = {}
        self.steps, self.made = steps, 0
        self._handles: list[Any] = []
        for at, module in enumerate(modules):
            for name, layer in layers_of(module).items():
                key = f"{at}.{name}" if len(modules) > 1 else name
                self._handles.append(layer.register_forward_hook(self._seen(key)))
        self._handles.append(optimizers[0].register_step_post_hook(self._stepped))

    def _seen(self, name: str) -> Any:
        def hook(layer: nn.Module, args: Any, output: Any) -> None:
            own = self.sizes.setdefault(name, [])
            if len(own) <= self.made:
                found = [one for one in tree_leaves(output) if isinstance(one, Tensor)]
                own += [float("nan")] * (self.made - len(own)) + [float(found[0].detach().abs().mean())]

        return hook

    def _stepped(self, *_: Any) -> None:
        self.made += 1
        if self.made >= self.steps:
            for handle in self._handles:
                handle.remove()
            self.finished()

    def finished(self) -> None:
        """Do nothing. A subclass may look at the sizes here."""


class Written(Activations):
    """Writes the sizes to a file once they are known: {"shrink": S, "activations": {layer: [size, …]}}."""

    def __init__(self, modules: Sequence[nn.Module], optimizers: Sequence[Optimizer], by: int, path: Path) -> None:
        super().__init__(modules, optimizers)
        self.by, self.path = by, path

    def finished(self) -> None:
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(json.dumps({"shrink": self.by, "activations": self.sizes}))
        beside.replace(self.path)


def record_as_asked(modules: Sequence[nn.Module], optimizers: Sequence[Optimizer], by: int) -> None:
    """Record activations where the environment names a file for them."""
    if path := os.environ.get(VARIABLE):
        Written(modules, optimizers, by, Path(path))
