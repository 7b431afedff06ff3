"""Before a study: which layers are in the way, and whether activations grow with width."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.shrunk import activations
from coadapt.executor.training.shrunk.check import growing, misfits
from coadapt.executor.training.shrunk.shrink import shrink
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

DATA = TensorDataset(torch.randn(128, 32, generator=torch.Generator().manual_seed(1)), torch.arange(128) % 10)


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def sizes(
    made: Callable[[int], nn.Module], by: int, lr: float, kind: str, seeds: int = 4
) -> dict[str, list[float]]:
    """Return sizes of activations at S, mean of seeds."""
    found: list[dict[str, list[float]]] = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = made(512)
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=lr)
        shrink([model], [], [optimizer], DataLoader(DATA, 32))
        seen = activations.Activations([model], [optimizer], steps=6)
        for x, y in [*DataLoader(DATA, 32)] * 2:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found.append(seen.sizes)
    return {layer: np.mean([one[layer] for one in found], axis=0).tolist() for layer in found[0]}


@pytest.mark.parametrize(("kind", "lr"), [("SGD", 0.05), ("Adam", 5e-4)])
def test_activations_do_not_grow_with_width(kind: str, lr: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for by in (1, 2, 4, 8):
        monkeypatch.setenv("COADAPT_SHRINK", str(by))
        found[by] = sizes(mlp, by, lr, kind)
    assert not growing(found)
    for layer in ("0", "2"):
        for by in (2, 4, 8):
            assert found[by][layer][-1] == pytest.approx(found[1][layer][-1], rel=0.15)


def test_activations_that_grow_are_named() -> None:
    """Those of standard parametrisation do, under Adam."""
    found = {by: sizes(lambda wide, by=by: mlp(wide // by), by, 0.01, "Adam") for by in (1, 2, 4, 8)}  # type: ignore[misc]
    told = growing(found)
    assert len(told) >= 1
    assert told[0].startswith("activations of layer '2' grow with width, to the power ")


class Scaled(nn.Module):
    """A layer that is known, and a factor that grows with its width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(32, width), nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        return self.last(self.hidden(h * h.shape[1] ** 0.5).relu())


def test_a_factor_of_the_script_s_own_that_grows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for by in (1, 2, 4):
        monkeypatch.setenv("COADAPT_SHRINK", str(by))
        found[by] = sizes(Scaled, by, 1e-4, "SGD", seeds=1)
    assert any("'hidden'" in one for one in growing(found))


def test_what_is_not_finite_is_named() -> None:
    assert growing({1: {"a": [1.0, float("nan")]}, 2: {"a": [1.0, 1.0]}}) == [
        "activations of layer 'a' are not finite after some steps; lower the rate"
    ]
    with pytest.raises(ValueError, match="1 widths are compared; at least 2 are needed"):
        growing({1: {}})


def test_a_script_leaves_its_activations_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "activations.json"
    monkeypatch.setenv(activations.VARIABLE, str(path))
    monkeypatch.setenv("COADAPT_SHRINK", "8")
    model = mlp(128)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shrink([model], [], [optimizer], DataLoader(DATA, 32))
    for x, y in DataLoader(DATA, 32):
        F.cross_entropy(model(x), y).backward()
        assert not path.exists()
        optimizer.step()
    found: Any = json.loads(path.read_text())
    assert found["shrink"] == 8
    assert {layer: len(own) for layer, own in found["activations"].items()} == {"0": 4, "2": 4, "4": 4}
    assert not any(module._forward_hooks for module in model.modules())


def test_all_layers_in_the_way_are_named_and_nothing_changes() -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))
    state = torch.get_rng_state()
    told = misfits(model, DataLoader(DATA, 32, shuffle=True), 8)
    assert [one.split("shrink: ")[1].split(",")[0] for one in told] == [
        "out_features of layer '2' (Linear) is 20",
        "in_features of layer '4' (Linear) is 20",
    ]
    assert model[0].weight.shape == (64, 32)
    assert torch.equal(torch.get_rng_state(), state)
