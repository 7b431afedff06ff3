"""Do settings found on a narrow model hold on the wide one? Learning rates, activations and ranks over S.

    python -m benchmarks.width_transfer [--seeds 3] [--lr-seeds 2] [--steps 30]

A script's model is narrowed by S as a study narrows it; S = 1 is the plain script. Data are scikit-learn's digits.

* lr_argmin_shift: the most steps of 2 by which the best learning rate at S = 2, 4, 8 differs from that at S = 1.
  An MLP of width 4096 with SGD and with Adam, and a Transformer of width 512 with Adam. By {model} too.
* standard/lr_argmin_shift: the same for models that are as narrow, with torch's own parametrisation.
* lr_regret, standard/lr_regret: what the target's loss is with the best rate of S = 8, over that with its own best.
* activation_diff: the largest difference of a layer's mean |activation| over S from that at S = 1, after 10 steps at
  a quarter of the best learning rate. activation_change_diff: of its mean change since the start, for hidden layers.
* spearman: of the losses of 12 settings of a CNN with BatchNorm at S = 1 and 8, mean of all seeds.
  top1_equal: 1 if the best setting is the same one. wider_is_better: settings whose target is better than S = 8.
* zero/...: figures where readouts and query projections of narrow models begin at 0, as in Hydro.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from coadapt.executor.training.shrunk import width as widths
from coadapt.executor.training.shrunk.activations import Activations
from coadapt.executor.training.shrunk.shrink import shrink
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from .arguments import at_least
from .harness import finish, table

DIVISORS = (1, 2, 4, 8)
BATCH, CLASSES = 64, 10
Settings = Mapping[str, float]


class Transformer(nn.Module):
    """Two blocks over the rows of an image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.rows, self.places = nn.Linear(8, width), nn.Embedding(8, width)
        self.blocks, self.last = nn.TransformerEncoder(layer, 2), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.rows(x.view(-1, 8, 8)) + self.places(torch.arange(8))
        found: Tensor = self.last(self.blocks(rows).mean(1))
        return found


class Cnn(nn.Module):
    """Three convolutions with statistics over the batch, two of them in a residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.second, self.second_norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.third, self.third_norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.last = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.first_norm(self.first(x.view(-1, 1, 8, 8)))), 2)
        inner = F.relu(self.second_norm(self.second(x)))
        x = F.relu(x + self.third_norm(self.third(inner)))
        found: Tensor = self.last(x.mean((2, 3)))
        return found


def mlp(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES)
    )


@dataclass(frozen=True)
class Case:
    """A target model, its optimizer, and the exponents of 2 that its learning rates are tried with."""

    model: Callable[[int], nn.Module]
    width: int
    optimizer: str
    exponents: Sequence[int]
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy


def squared(output: Tensor, classes: Tensor) -> Tensor:
    """Return the squared distance to the class, half of it: cross entropy hides rates that are too large for SGD."""
    return (output - F.one_hot(classes, CLASSES)).square().sum(1).mean() / 2


CASES = {
    "mlp_sgd": Case(mlp, 4096, "SGD", range(-7, 2), squared),
    "mlp_adam": Case(mlp, 4096, "Adam", range(-14, -5)),
    "transformer": Case(Transformer, 512, "Adam", range(-13, -5)),
}
# Settings of the CNN: spread over four powers of 10 of rates, momentum and batch size.
SETTINGS: Sequence[Settings] = (
    {"lr": 0.5, "momentum": 0.0, "batch": 64},
    {"lr": 0.3, "momentum": 0.9, "batch": 128},
    {"lr": 0.1, "momentum": 0.9, "batch": 32},
    {"lr": 0.05, "momentum": 0.5, "batch": 64},
    {"lr": 0.02, "momentum": 0.0, "batch": 32},
    {"lr": 0.01, "momentum": 0.9, "batch": 64},
    {"lr": 0.01, "momentum": 0.5, "batch": 128},
    {"lr": 0.003, "momentum": 0.6, "batch": 32},
    {"lr": 0.002, "momentum": 0.0, "batch": 64},
    {"lr": 0.001, "momentum": 0.9, "batch": 128},
    {"lr": 0.0005, "momentum": 0.5, "batch": 32},
    {"lr": 0.0001, "momentum": 0.9, "batch": 64},
)


def digits() -> tuple[Tensor, Tensor]:
    images, classes = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32)
    return (x - x.mean()) / x.std(), torch.tensor(classes)


@contextmanager
def narrowing(by: int, zero: bool) -> Iterator[None]:
    """Say to the script in hand, as a study does, by what it divides widths."""
    before = {name: os.environ.get(name) for name in (widths.VARIABLE, widths.ZERO)}
    os.environ.update({widths.VARIABLE: str(by), widths.ZERO: str(int(zero))})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Script:
    """A model with its optimizer, as a script has them, trained on digits.

    how: "ours", "zero" (readouts and queries begin at 0), or "standard", a narrow model as torch makes it.
    """

    def __init__(
        self, case: Case, by: int, settings: Settings, seed: int, data: tuple[Tensor, Tensor], how: str = "ours"
    ) -> None:
        self.case, self.data, self.seed = case, data, seed
        self.batch = int(settings.get("batch", BATCH))
        torch.manual_seed(seed)
        self.model = case.model(case.width // by if how == "standard" else case.width)
        own = {name: value for name, value in settings.items() if name != "batch"}
        self.optimizer = getattr(torch.optim, case.optimizer)(self.model.parameters(), **own)
        if how != "standard":
            with narrowing(by, how == "zero"):
                loader = DataLoader(TensorDataset(*data), self.batch)
                shrink([self.model], [], [self.optimizer], loader)

    def train(self, steps: int) -> None:
        x, y = self.data
        draw = torch.Generator().manual_seed(self.seed)
        for _ in range(steps):
            at = torch.randint(0, len(x), (self.batch,), generator=draw)
            loss = self.case.loss(self.model(x[at]), y[at])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def loss(self) -> float:
        """Return the loss over all data; that of a guess at most, where a training has diverged."""
        x, y = self.data
        guess = float(self.case.loss(torch.zeros(len(x), CLASSES), y))
        with torch.no_grad():
            found = float(self.case.loss(self.model(x), y))
        return min(found, guess) if np.isfinite(found) else guess


def sweep(case: Case, by: int, seeds: int, steps: int, data: Any, how: str = "ours") -> list[float]:
    """Return the mean loss over seeds for each learning rate."""
    found = []
    for exponent in case.exponents:
        losses = []
        for seed in range(seeds):
            script = Script(case, by, {"lr": 2.0**exponent}, seed, data, how)
            script.train(steps)
            losses.append(script.loss())
        found.append(float(np.mean(losses)))
    return found


def shift(curves: Mapping[int, Sequence[float]]) -> int:
    """Return the most steps between the best rate of S = 1 and that of another S."""
    best = {by: int(np.argmin(curve)) for by, curve in curves.items()}
    return max(abs(found - best[1]) for found in best.values())


def regret(curves: Mapping[int, Sequence[float]]) -> float:
    return float(curves[1][int(np.argmin(curves[8]))] - min(curves[1]))


def sizes(case: Case, by: int, lr: float, seeds: int, data: Any, how: str) -> dict[str, tuple[float, float]]:
    """Return by layer the mean size of activations after ten steps, and of their change since the start."""
    found: dict[str, list[tuple[float, float]]] = {}
    x = data[0][:BATCH]
    for seed in range(seeds):
        script = Script(case, by, {"lr": lr}, seed, data, how)
        first = given(script.model, x)
        script.train(10)
        for name, after in given(script.model, x).items():
            change = float((after - first[name]).abs().mean())
            found.setdefault(name, []).append((float(after.abs().mean()), change))
    return {
        name: (float(np.mean([a for a, _ in of])), float(np.mean([b for _, b in of])))
        for name, of in found.items()
    }


def given(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return what each layer with weights gives, by name."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(layer: nn.Module, args: Any, output: Any) -> None:
            found[name] = output[0] if isinstance(output, tuple) else output

        return hook

    kinds = (nn.Linear, nn.Embedding, nn.MultiheadAttention)
    handles = [
        layer.register_forward_hook(keep(name))
        for name, layer in model.named_modules()
        if isinstance(layer, kinds)
    ]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=3, help="of settings and activations")
    parser.add_argument("--lr-seeds", type=at_least(1), default=2, help="of learning rates")
    parser.add_argument("--steps", type=at_least(10), default=30)
    parser.add_argument("--only", default=",".join(CASES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = digits()
    figures: dict[str, float] = {}
    for name in options.only.split(","):
        case = CASES[name]
        target = sweep(case, 1, options.lr_seeds, options.steps, data)
        rows = [["target", 1, *target]]
        best_lr = 2.0 ** case.exponents[int(np.argmin(target))]
        base = None
        for how in ("ours", "zero", "standard"):
            curves = {1: target}
            for by in DIVISORS[1:]:
                curves[by] = sweep(case, by, options.lr_seeds, options.steps, data, how)
                rows.append([how, by, *curves[by]])
            prefix = "" if how == "ours" else f"{how}/"
            figures[f"{prefix}{name}/lr_argmin_shift"] = shift(curves)
            figures[f"{prefix}{name}/lr_regret"] = round(regret(curves), 4)
            base = base or sizes(case, 1, best_lr / 4, options.seeds, data, "ours")
            diff, change = [], []
            for by in DIVISORS[1:]:
                own = sizes(case, by, best_lr / 4, options.seeds, data, how)
                diff += [abs(own[layer][0] / base[layer][0] - 1) for layer in base]
                change += [abs(own[layer][1] / base[layer][1] - 1) for layer in list(base)[:-1]]
                print(
                    how,
                    by,
                    {
                        layer: (round(own[layer][0] / base[layer][0], 3), round(own[layer][1] / base[layer][1], 3))
                        for layer in base
                    },
                    flush=True,
                )
            figures[f"{prefix}{name}/activation_diff"] = round(max(diff), 4)
            figures[f"{prefix}{name}/activation_change_diff"] = round(max(change), 4)
        table(name, ["", "S", *[f"2^{e}" for e in case.exponents]], rows)
        print(figures, flush=True)
    finish("width_transfer", figures)


if __name__ == "__main__":
    main()
