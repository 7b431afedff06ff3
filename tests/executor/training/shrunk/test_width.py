"""A script writes its widths as `coadapt.width(…)`, and builds the narrow model itself."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.shrunk.errors import CannotShrink
from coadapt.executor.training.shrunk.parametrise import Family, rate_factors
from coadapt.executor.training.shrunk.shrink import as_marked, narrowed, shrink
from coadapt.executor.training.shrunk.width import Width, forget, width
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

BATCHES = DataLoader(TensorDataset(torch.arange(96).view(16, 6) % 12, torch.arange(16) % 10), 8)


class Words(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(wide, 2, 2 * wide, dropout=0.0, batch_first=True)
        self.table, self.blocks = nn.Embedding(12, wide), nn.TransformerEncoder(layer, 1)
        self.norm, self.last = nn.LayerNorm(wide), nn.Linear(wide, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.blocks(self.table(x))).mean(1))


@pytest.mark.parametrize(
    ("computed", "narrow", "wide"),
    [
        (lambda w: 4 * w, 128, 1024),
        (lambda w: w * 4, 128, 1024),
        (lambda w: w // 2, 16, 128),
        (lambda w: w + w, 64, 512),
        (lambda w: 3 + w, 35, 259),
        (lambda w: w - 16, 16, 240),
        (lambda w: max(w, 8), 32, 256),
        (lambda w: sum([w, w]), 64, 512),
        (lambda w: pickle.loads(pickle.dumps(w)), 32, 256),
        (copy.deepcopy, 32, 256),
    ],
)
def test_numbers_computed_from_a_width_know_those_of_the_target(
    computed: Any, narrow: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COADAPT_SHRINK", "8")
    found = computed(width(256))
    assert (type(found), int(found), found.wide) == (Width, narrow, wide)


@pytest.mark.parametrize(
    ("wide", "least", "told"),
    [
        (100, 8, "width is 100, which cannot be divided by 8"),
        (56, 8, "width is 56, divided by 8 7; at least 8"),
        (8, 2, "at least 2"),
    ],
)
def test_widths_that_cannot_be_divided_are_refused(
    wide: int, least: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COADAPT_SHRINK", "8")
    with pytest.raises(CannotShrink, match=told):
        width(wide, least)


@pytest.mark.parametrize("family", Family)
def test_a_model_of_marked_widths_is_the_one_that_rules_give(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(5)
    monkeypatch.setenv("COADAPT_SHRINK", "4")
    by_rules = Words(128)
    expected = rate_factors(narrowed(by_rules, 4, BATCHES), family)
    marked = Words(width(128))
    found = rate_factors(as_marked([marked]), family)
    for own, other in zip(marked.parameters(), by_rules.parameters(), strict=True):
        assert torch.equal(own, other)
        assert found[id(own)] == expected[id(other)]
    for x, _ in BATCHES:
        assert torch.equal(marked(x), by_rules(x))


def test_a_number_that_is_no_width_may_be_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The narrow width is 64, and so are the inputs."""
    monkeypatch.setenv("COADAPT_SHRINK", "8")
    wide = width(512)
    model = nn.Sequential(nn.Linear(64, wide), nn.ReLU(), nn.Linear(wide, 64), nn.ReLU(), nn.Linear(64, wide))
    factors = rate_factors(as_marked([model]), Family.ADAM)
    assert [factors[id(model[at].weight)] for at in (0, 2, 4)] == [1, 1, 1]


class Placed(nn.Module):
    """An own parameter, attention of its own, and a forward that knows its widths."""

    def __init__(self, wide: int, heads: int, length: int = 6) -> None:
        super().__init__()
        self.heads = heads
        self.table, self.qkv, self.last = nn.Embedding(12, wide), nn.Linear(wide, 3 * wide), nn.Linear(wide, 10)
        self.places = nn.Parameter(torch.zeros(1, length, wide))

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x) + self.places
        q, k, v = (one.view(*h.shape[:2], self.heads, 16).transpose(1, 2) for one in self.qkv(h).chunk(3, -1))
        return self.last(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).mean(1))


def test_a_script_that_knows_its_widths_narrows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COADAPT_SHRINK", "4")
    model = Placed(width(128), width(8, least=1))
    assert width(4, least=1) == 1, "which is no width of a parameter"
    model.places.data.fill_(0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shrink([model], [], [optimizer], None)
    assert bool((model.places == 0.5).all()), "its first value is the script's"
    was = {name: one.detach().clone() for name, one in model.named_parameters()}
    x, y = next(iter(BATCHES))
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    factors = {
        "table.weight": 0.25,
        "qkv.weight": 1,
        "qkv.bias": 0.25,
        "last.weight": 0.25,
        "last.bias": 1,
        "places": 0.25,
    }
    for name, own in model.named_parameters():
        torch.testing.assert_close(own.detach(), was[name] - 0.1 * factors[name] * own.grad)


def test_a_size_with_two_meanings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COADAPT_SHRINK", "4")
    with pytest.raises(CannotShrink, match="'places' has 2 widths and an initialiser of its own"):
        as_marked([Placed(width(128), width(8, least=2), length=32)])
    forget()
    model = Placed(width(128), width(8, least=2))
    model.data = nn.Linear(32, 5)
    with pytest.raises(CannotShrink, match="'places' has a size of 32, which is a width and also another number"):
        as_marked([model])


def test_widths_that_no_layer_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COADAPT_SHRINK", "4")
    model = nn.Linear(int(width(128)), 10)
    with pytest.raises(CannotShrink, match="no layer has its widths"):
        shrink([model], [], [torch.optim.SGD(model.parameters(), lr=0.1)], None)


def test_own_initialisers_are_refused_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COADAPT_SHRINK", "4")
    model = Words(width(128))
    nn.init.xavier_normal_(model.blocks.layers[0].linear1.weight)
    with pytest.raises(CannotShrink, match=r"layer 'blocks.layers.0.linear1' .* own initialisers"):
        shrink([model], [], [torch.optim.SGD(model.parameters(), lr=0.1)], None)
