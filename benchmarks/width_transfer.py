"""Do settings found on a narrow model hold on the wide one? Learning rates, activations and ranks over S.

    python -m benchmarks.width_transfer [--seeds 3] [--lr-seeds 2] [--steps 30] [--models mlp,transformer]

A script's model is narrowed by S as a study narrows it; S = 1 is the plain script. Data are scikit-learn's digits.
An MLP of width 4096 trains with SGD, and a Transformer of width 512 with Adam, at S = 1, 2, 4, 8. The MLP has
squared error. `mlp_cross_entropy` is another one, whose best rate lies where training all but diverges.

* lr_argmin_shift: the most steps of 2 by which the best learning rate at some S differs from that at S = 1.
* lr_regret: what the target's loss is with the best rate of S = 8, less that with its own best rate.
* activation_diff: the largest difference of a layer's mean |activation| at some S from that at S = 1, over the
  latter, after twice as many steps at a quarter of the best rate, mean of seeds.
  activation_change_diff: the same of mean |change| since the start.
* standard/...: the same for models that are as narrow, as torch makes and trains them.
* zero/...: where readouts and query projections of narrow models begin at 0, as in Hydro.
* spearman: between the losses of 12 settings of a CNN with BatchNorm at S = 1 and 8, each the mean of seeds.
  spearman_of_seeds: the mean of that of each seed. top1_equal: 1 if the best setting is the same one.
  wider_is_better: the share of settings with which the target is better than S = 8.
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
from coadapt.executor.training.shrunk.shrink import shrink
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from .arguments import at_least, some_of
from .harness import finish, table

DIVISORS = (1, 2, 4, 8)
BATCH, CLASSES = 64, 10
Settings = Mapping[str, float]
Sizes = tuple[float, float]


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


def squared(output: Tensor, classes: Tensor) -> Tensor:
    """Return half the squared distance to the class. Cross entropy would hide rates that are too large for SGD."""
    return (output - F.one_hot(classes, CLASSES)).square().sum(1).mean() / 2


@dataclass(frozen=True)
class Case:
    """A target model, its optimizer, and the exponents of 2 that its learning rates are tried with."""

    model: Callable[[int], nn.Module]
    width: int
    optimizer: str
    exponents: Sequence[int]
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy


CASES = {
    "mlp": Case(mlp, 4096, "SGD", range(-7, 0), squared),
    "transformer": Case(Transformer, 512, "Adam", range(-13, -6)),
    "mlp_cross_entropy": Case(mlp, 4096, "SGD", range(-6, 2)),
}
# Of the CNN: spread over four powers of 10 of rates, momentum and batch size.
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
        """Return the loss over all data; ten times that of a guess at most, where a training has diverged."""
        x, y = self.data
        guess = float(self.case.loss(torch.zeros(len(x), CLASSES), y))
        with torch.no_grad():
            found = float(self.case.loss(self.model(x), y))
        return min(found, 10 * guess) if np.isfinite(found) else 10 * guess


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


def sizes(case: Case, by: int, lr: float, seeds: int, steps: int, data: Any, how: str) -> dict[str, Sizes]:
    """Return by layer the mean size of its activations after some steps, and of their change since the start."""
    found: dict[str, list[Sizes]] = {}
    x = data[0][:256]
    for seed in range(seeds):
        script = Script(case, by, {"lr": lr}, seed, data, how)
        first = given(script.model, x)
        script.train(steps)
        for name, after in given(script.model, x).items():
            change = float((after - first[name]).abs().mean())
            found.setdefault(name, []).append((float(after.abs().mean()), change))
    return {name: tuple(np.mean(of, axis=0).tolist()) for name, of in found.items()}


def given(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return what each layer with weights gives, by name."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(layer: nn.Module, args: Any, output: Any) -> None:
            found[name] = output[0] if isinstance(output, tuple) else output

        return hook

    kinds = (nn.Linear, nn.Embedding, nn.MultiheadAttention)
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, kinds)]
    handles = [layer.register_forward_hook(keep(name)) for name, layer in layers]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return found


def rates(name: str, case: Case, options: argparse.Namespace, data: Any) -> dict[str, float]:
    """Return the figures of one model: of learning rates and activations over widths."""
    figures: dict[str, float] = {}
    target = sweep(case, 1, options.lr_seeds, options.steps, data)
    lr = 2.0 ** case.exponents[int(np.argmin(target))] / 4
    rows: list[list[object]] = [["the script", 1, *target]]
    base = sizes(case, 1, lr, options.seeds, 2 * options.steps, data, "ours")
    layers: list[list[object]] = []
    for how in ("ours", "standard", "zero"):
        curves = {1: target}
        diffs: list[tuple[float, float]] = []
        for by in DIVISORS[1:]:
            curves[by] = sweep(case, by, options.lr_seeds, options.steps, data, how)
            rows.append([how, by, *curves[by]])
            own = sizes(case, by, lr, options.seeds, 2 * options.steps, data, how)
            ratios = {layer: (own[layer][0] / base[layer][0], own[layer][1] / base[layer][1]) for layer in base}
            layers.append([how, by, *[f"{size:.2f} {change:.2f}" for size, change in ratios.values()]])
            diffs += [(abs(size - 1), abs(change - 1)) for size, change in ratios.values()]
        prefix = "" if how == "ours" else f"{how}/"
        figures[f"{prefix}{name}/lr_argmin_shift"] = shift(curves)
        figures[f"{prefix}{name}/lr_regret"] = round(regret(curves), 4)
        for at, what in enumerate(("activation_diff", "activation_change_diff")):
            figures[f"{prefix}{name}/{what}"] = round(max(diff[at] for diff in diffs), 4)
    table(f"{name}: loss by learning rate", ["", "S", *[f"2^{e}" for e in case.exponents]], rows)
    table(f"{name}: size and change of activations, over those at S = 1", ["", "S", *base], layers)
    return figures


def ranks(seeds: int, data: Any) -> dict[str, float]:
    """Return how far the settings of the CNN keep their ranks from S = 8 to S = 1."""
    case = Case(Cnn, 64, "SGD", ())
    losses = np.zeros((2, seeds, len(SETTINGS)))
    for place in np.ndindex(losses.shape):
        script = Script(case, (1, 8)[place[0]], SETTINGS[place[2]], place[1], data)
        script.train(40)
        losses[place] = script.loss()
    mean = losses.mean(1)
    rows = [[*setting.values(), *pair] for setting, pair in zip(SETTINGS, mean.T, strict=True)]
    table("CNN: loss by setting", ["rate", "momentum", "batch size", "S = 1", "S = 8"], rows)
    each = [spearmanr(losses[0, seed], losses[1, seed]).statistic for seed in range(seeds)]
    return {
        "spearman": round(float(spearmanr(*mean).statistic), 4),
        "spearman_of_seeds": round(float(np.mean(each)), 4),
        "top1_equal": int(np.argmin(mean[0]) == np.argmin(mean[1])),
        "wider_is_better": float((mean[0] < mean[1]).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=3, help="of settings and activations")
    parser.add_argument("--lr-seeds", type=at_least(1), default=2, help="of learning rates")
    parser.add_argument("--steps", type=at_least(10), default=30)
    parser.add_argument("--models", type=some_of(list(CASES)), default=["mlp", "transformer"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = digits()
    found = ranks(options.seeds, data)
    for name in options.models:
        found |= rates(name, CASES[name], options, data)
    figures = {
        "lr_argmin_shift": max(found[f"{name}/lr_argmin_shift"] for name in options.models),
        "standard/lr_argmin_shift": min(found[f"standard/{name}/lr_argmin_shift"] for name in options.models),
        "activation_diff": max(found[f"{name}/activation_diff"] for name in options.models),
    }
    finish("width_transfer", figures | found)


if __name__ == "__main__":
    main()
