"""Trials that train as one, against the same trials alone: a CNN with BatchNorm, an MLP and a Transformer.

    python -m benchmarks.fusion_equivalence [--steps 100] [--seed 0]

Four trials each, with SGD, Adam and AdamW, a cosine schedule and clipped gradients. The largest differences:

* max_param_diff: of parameters and buffers in double precision, after all steps.
* max_param_diff_after_events: the same where trials are dropped, split off, merged, and read from a file by new
  objects on the way.
* max_loss_diff: of losses in single precision, over all steps. max_param_diff_20: of parameters after 20 of SGD.
* nan_reached: trials that a NaN in another one has reached.
* mean_loss_fails: 1 if the gradient of the mean of losses, rather than of their sum, is told apart.
* fused_over_alone/{trials}: steps/s of so many trials as one, times these, over those of one alone; of the MLP.
* fused_over_alone/cnn/{trials}: the same of the CNN.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from coadapt.executor.training.fused.group import TrialGroup
from coadapt.executor.training.fused.trial_number import TrialNumber
from coadapt.executor.training.fused.trial_tensor import stacked
from torch import Tensor, nn

from .arguments import at_least
from .harness import finish, table

TRIALS, SGD_STEPS, CLASSES = 4, 20, 10
SETTINGS: dict[str, dict[str, list[float]]] = {
    "SGD": {
        "lr": [0.05, 0.02, 0.01, 0.03],
        "momentum": [0.9, 0.5, 0.1, 0.8],
        "weight_decay": [0, 1e-3, 1e-4, 1e-2],
    },
    "Adam": {"lr": [1e-3, 1e-2, 3e-3, 1e-4]},
    "AdamW": {"lr": [1e-3, 1e-2, 3e-3, 1e-4], "weight_decay": [0, 1e-2, 0.1, 1e-3]},
}
MANY = (1, 8, 32, 128)
Batch = tuple[Tensor, Tensor]


class Cnn(nn.Module):
    """Two convolutions with statistics over the batch. They have no bias, which these would make useless."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.second_norm = nn.Conv2d(8, 16, 3, stride=2, bias=False), nn.BatchNorm2d(16)
        self.last = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first_norm(self.first(x)))
        x = F.relu(self.second_norm(self.second(x)))
        found: Tensor = self.last(x.mean((2, 3)))
        return found


class Transformer(nn.Module):
    """Two blocks over twelve words."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.table, self.last = nn.Embedding(16, 32), nn.Linear(32, CLASSES)
        self.blocks = nn.TransformerEncoder(layer, 2)

    def forward(self, x: Tensor) -> Tensor:
        words = (x.flatten(1)[:, :12].abs() * 5).long().clamp(max=15)
        found: Tensor = self.last(self.blocks(self.table(words)).mean(1))
        return found


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES)
    )


MODELS: dict[str, Callable[[], nn.Module]] = {"cnn": Cnn, "mlp": mlp, "transformer": Transformer}


def drawn(steps: int, seed: int) -> list[Batch]:
    """Return batches of 16 small images, the same in each precision."""
    draw = torch.Generator().manual_seed(seed)
    kind = torch.get_default_dtype()
    return [
        (
            torch.randn(16, 1, 8, 8, generator=draw, dtype=torch.float64).to(kind),
            torch.randint(0, CLASSES, (16,), generator=draw),
        )
        for _ in range(steps)
    ]


class Script:
    """A model, its optimizer and its scheduler, as a script has them: of one trial, or of a group."""

    def __init__(self, name: str, optimizer: str, trials: Sequence[int], seed: int, steps: int) -> None:
        torch.manual_seed(seed)
        self.model, self.trials = MODELS[name](), list(trials)
        of = {key: [values[i] for i in trials] for key, values in SETTINGS[optimizer].items()}
        settings: dict[str, Any] = {k: v[0] if len(trials) == 1 else TrialNumber(v) for k, v in of.items()}
        self.optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), **settings)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 2 * steps)
        self.group: TrialGroup | None = None
        if len(trials) > 1:
            self.group = TrialGroup([self.model], [self.optimizer], [self.scheduler], len(trials))

    def train(self, batches: Sequence[Batch], gradient: float | None = None) -> list[Any]:
        losses = []
        for x, y in batches:
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward(None if gradient is None else torch.full((len(self.trials),), gradient))
            nn.utils.clip_grad_norm_(self.model.parameters(), 1e3)
            self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        return losses


def difference(script: Script, alone: Sequence[Script], trials: Sequence[int]) -> float:
    """Return the largest difference of parameters and buffers between a group and its trials alone."""
    found = 0.0
    for at, trial in enumerate(trials):
        other = alone[trial].model.state_dict()
        for name, own in script.model.state_dict().items():
            found = max(found, float((stacked(own)[at].double() - other[name].double()).abs().max()))
    return found


def kept(states: Sequence[Any]) -> Any:
    """Return states as another process reads them from a file."""
    file = io.BytesIO()
    torch.save(states, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def after_events(name: str, optimizer: str, batches: Sequence[Batch], alone: Sequence[Script], seed: int) -> float:
    """Return the largest difference where trials are dropped, split off, merged and begun anew from a file."""
    steps = len(batches)
    part = max(steps // 5, 1)
    everyone = range(TRIALS)
    one = Script(name, optimizer, everyone, seed, steps)
    assert one.group is not None
    one.train(batches[:part])
    states = [one.group.state_of(i) for i in everyone]
    other = Script(name, optimizer, [0, 1], seed, steps)  # of another process
    assert other.group is not None
    other.group.become(kept(states[2:]))
    one.group.keep([0, 1])
    for script in (one, other):
        script.train(batches[part : 2 * part])
    one.group.become(
        [one.group.state_of(0), one.group.state_of(1), other.group.state_of(0), other.group.state_of(1)]
    )
    one.train(batches[2 * part : 3 * part])
    anew = Script(name, optimizer, everyone, seed + 1, steps)  # after a kill
    assert anew.group is not None
    anew.group.become(kept([one.group.state_of(i) for i in everyone]))
    anew.train(batches[3 * part : 4 * part])
    anew.group.keep([3, 1])
    anew.train(batches[4 * part :])
    return difference(anew, alone, [3, 1])


def nan_reached(batches: Sequence[Batch], seed: int) -> int:
    """Return how many other trials a NaN of one has reached."""
    script = Script("cnn", "SGD", range(TRIALS), seed, len(batches))
    with torch.no_grad():
        stacked(next(script.model.parameters()))[1].fill_(float("nan"))
    script.train(batches)
    bad = [any(bool(stacked(p)[i].isnan().any()) for p in script.model.parameters()) for i in range(TRIALS)]
    assert bad[1]
    return sum(bad) - 1


def speeds(seed: int) -> dict[str, float]:
    """Return by how much more trials a model trains in the same time, by the number of trials of a group.

    Times are of the processor, as other programs may run beside. Runs alone and as one take turns.
    """
    batches = drawn(40, seed)

    def seconds(name: str, trials: int) -> float:
        torch.manual_seed(seed)
        model = MODELS[name]()
        lr: Any = 0.05 if trials == 0 else TrialNumber([0.05 + 1e-4 * i for i in range(trials)])
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        if trials:
            TrialGroup([model], [optimizer], [], trials)
        steps = []
        for x, y in batches:
            began = time.process_time()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(time.process_time() - began)
        return sorted(steps[5:])[len(steps) // 4]

    found: dict[str, float] = {}
    for name in ("mlp", "cnn"):
        for trials in MANY:
            pairs = [(seconds(name, 0), seconds(name, trials)) for _ in range(5)]
            ratio = sorted(trials * alone / fused for alone, fused in pairs)[2]
            found[f"fused_over_alone/{'' if name == 'mlp' else name + '/'}{trials}"] = round(ratio, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=at_least(20), default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    steps, seed = options.steps, options.seed
    figures = {
        "max_param_diff": 0.0,
        "max_param_diff_after_events": 0.0,
        "max_loss_diff": 0.0,
        "max_param_diff_20": 0.0,
    }
    rows = []
    for name in MODELS:
        for optimizer in SETTINGS:
            row: list[object] = [name, optimizer]
            for kind in (torch.float64, torch.float32):
                torch.set_default_dtype(kind)
                batches = drawn(steps, seed)
                alone = [Script(name, optimizer, [i], seed, steps) for i in range(TRIALS)]
                losses = [one.train(batches) for one in alone]
                if kind is torch.float64:
                    fused = Script(name, optimizer, range(TRIALS), seed, steps)
                    fused.train(batches)
                    found = {
                        "max_param_diff": difference(fused, alone, range(TRIALS)),
                        "max_param_diff_after_events": after_events(name, optimizer, batches, alone, seed),
                    }
                else:
                    fused = Script(name, optimizer, range(TRIALS), seed, steps)
                    own = fused.train(batches)
                    pairs = ((own[i].of(t), losses[t][i]) for i in range(steps) for t in range(TRIALS))
                    found = {"max_loss_diff": max(abs(a - b) for a, b in pairs)}
                    if optimizer == "SGD":
                        begun = [Script(name, optimizer, [i], seed, steps) for i in range(TRIALS)]
                        group = Script(name, optimizer, range(TRIALS), seed, steps)
                        for one in (*begun, group):
                            one.train(batches[:SGD_STEPS])
                        found["max_param_diff_20"] = difference(group, begun, range(TRIALS))
                row += found.values()
                figures |= {key: max(figures[key], value) for key, value in found.items()}
            rows.append([*row, *[""] * (6 - len(row))])
    head = ["model", "optimizer", "parameters", "after events", "losses, single", "parameters, single, 20 steps"]
    table(f"Largest differences over {steps} steps between {TRIALS} trials as one and alone", head, rows)
    torch.set_default_dtype(torch.float64)
    batches = drawn(SGD_STEPS, seed)
    alone = [Script("mlp", "SGD", [i], seed, steps) for i in range(TRIALS)]
    mean = Script("mlp", "SGD", range(TRIALS), seed, steps)
    for one in alone:
        one.train(batches)
    mean.train(batches, gradient=1 / TRIALS)
    figures["mean_loss_fails"] = int(difference(mean, alone, range(TRIALS)) > 1e-6)
    figures["nan_reached"] = nan_reached(batches, seed)
    torch.set_default_dtype(torch.float32)
    finish("fusion_equivalence", figures | speeds(seed))


if __name__ == "__main__":
    main()
