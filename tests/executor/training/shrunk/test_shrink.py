"""A study's script gets a narrow model in place of its own: same objects, same depth, widths divided by S."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.shrunk.errors import CannotShrink
from coadapt.executor.training.shrunk.shrink import shrink
from coadapt.executor.training.shrunk.width import ZERO, width
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

IMAGES = DataLoader(TensorDataset(torch.zeros(16, 1, 8, 8).normal_(), torch.arange(16) % 10), 8, shuffle=True)
WORDS = DataLoader(TensorDataset(torch.arange(96).view(16, 6) % 12, torch.arange(16) % 10), 8)


class Residual(nn.Module):
    """A residual block as in ResNet."""

    def __init__(self, ins: int, outs: int, stride: int = 1) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(ins, outs, 3, stride, 1, bias=False), nn.BatchNorm2d(outs)
        self.second, self.second_norm = nn.Conv2d(outs, outs, 3, 1, 1, bias=False), nn.BatchNorm2d(outs)
        self.short = nn.Sequential()
        if stride > 1 or ins != outs:
            self.short = nn.Sequential(nn.Conv2d(ins, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.first_norm(self.first(x)), inplace=True)
        return F.relu(self.second_norm(self.second(inner)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.blocks = nn.ModuleList([Residual(64, 64), Residual(64, 128, 2)])
        self.last = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x.mean((2, 3)))


class Words(nn.Module):
    """A Transformer over twelve words."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 2, 128, dropout=0.0, batch_first=True)
        self.table, self.places = nn.Embedding(12, 64, padding_idx=0), nn.Embedding(6, 64)
        self.blocks, self.last = nn.TransformerEncoder(layer, 2), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.blocks(self.table(x) + self.places(torch.arange(6))).mean(1))


def mlp(width: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


def depthwise() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 64, 3),
        nn.BatchNorm2d(64),
        nn.Conv2d(64, 64, 3, groups=64),
        nn.GroupNorm(8, 64),
        nn.Conv2d(64, 128, 1, groups=8),
        nn.PReLU(128),
        nn.ConvTranspose2d(128, 64, 2),
        nn.InstanceNorm2d(64, affine=True),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.LayerNorm(64),
        nn.Linear(64, 10),
    )


class Shared(nn.Module):
    """One hidden layer, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.flatten(1)).relu()
        return self.last(self.hidden(self.hidden(x).relu()).relu())


class Tied(nn.Module):
    """A table of words that is also the readout."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.hidden, self.last = nn.Embedding(12, 64), nn.Linear(64, 64), nn.Linear(64, 12)
        self.last.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.hidden(self.table(x)).relu())


class UNet(nn.Module):
    """A part of its output is the classes; it joins channels of two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(1, 64, 3, 1, 1), nn.Conv2d(64, 128, 3, 2, 1)
        self.up, self.both, self.last = (
            nn.ConvTranspose2d(128, 64, 2, 2),
            nn.Conv2d(128, 64, 3),
            nn.Conv2d(64, 10, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = torch.cat([x, self.up(self.down(x).relu()).relu()], 1)
        return self.last(self.both(x).relu()).mean((2, 3))


class Translator(nn.Module):
    """An encoder and a decoder, which torch initialises otherwise than their layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(12, 64), nn.Linear(64, 12)
        self.inner = nn.Transformer(64, 2, 1, 1, 128, 0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x)
        return self.last(self.inner(h, h[:, :3]))


def narrow(
    module: nn.Module, by: int, monkeypatch: pytest.MonkeyPatch, loader: Any = IMAGES, kind: str = "SGD"
) -> torch.optim.Optimizer:
    monkeypatch.setenv("COADAPT_SHRINK", str(by))
    optimizer: torch.optim.Optimizer = getattr(torch.optim, kind)(module.parameters(), lr=0.1)
    shrink([module], [], [optimizer], loader)
    return optimizer


def shapes(module: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(parameter.shape) for parameter in module.parameters() if parameter.ndim > 1]


@pytest.mark.parametrize(
    ("made", "loader"),
    [
        (mlp, IMAGES),
        (ResNet, IMAGES),
        (depthwise, IMAGES),
        (Shared, IMAGES),
        (UNet, IMAGES),
        (Words, WORDS),
        (Tied, WORDS),
        (Translator, WORDS),
    ],
)
def test_a_narrow_model_is_the_same_object_and_trains(
    made: Callable[[], nn.Module], loader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made()
    held, before = list(model.parameters()), sum(one.numel() for one in model.parameters())
    optimizer = narrow(model, 4, monkeypatch, loader)
    assert all(one is other for one, other in zip(model.parameters(), held, strict=True))
    assert sum(one.numel() for one in held) < before / 3
    for x, y in loader:
        output = model(x)
        assert output.shape[-1] in (10, 12), "classes stay"
        loss = F.cross_entropy(output if output.ndim == 2 else output[:, 0], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(bool(one.isfinite().all()) for one in held)
    assert len(optimizer.param_groups) == 1, "the script's groups are its own"


def test_widths_are_divided_and_data_and_classes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp(128)
    narrow(model, 8, monkeypatch)
    assert shapes(model) == [(16, 64), (16, 16), (10, 16)]
    assert (model[1].in_features, model[3].in_features, model[5].out_features) == (64, 16, 10)


def test_resnet_18_has_the_parameters_that_hydro_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its artifact has 11.174 million, and 176,402 at S = 8."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    ins = 64
    for outs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(ins, outs, stride), Residual(outs, outs)]
        ins = outs
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    assert sum(one.numel() for one in model.parameters()) == 11_173_962
    narrow(model, 8, monkeypatch, DataLoader(TensorDataset(torch.randn(4, 3, 32, 32)), 2))
    assert sum(one.numel() for one in model.parameters()) == 176_402
    assert model[9].short[1].running_var.shape == (64,)


def test_convolutions_with_groups_keep_the_size_of_these(monkeypatch: pytest.MonkeyPatch) -> None:
    model = depthwise()
    narrow(model, 4, monkeypatch)
    assert isinstance(model, nn.Sequential)
    assert (model[2].groups, model[2].weight.shape) == (16, (16, 1, 3, 3))
    assert (model[3].num_groups, model[4].groups, model[4].weight.shape) == (2, 2, (32, 8, 1, 1))
    assert (model[6].weight.shape, model[10].weight.shape) == ((32, 16, 2, 2), (16, 64))


def test_attention_keeps_its_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Words()
    narrow(model, 4, monkeypatch, WORDS)
    inner = model.blocks.layers[0].self_attn
    assert (inner.num_heads, inner.head_dim, inner.in_proj_weight.shape) == (2, 8, (48, 16))
    assert model.table.weight.shape == (12, 16)
    assert model.blocks.layers[0].linear1.weight.shape == (32, 16)


def test_without_a_divisor_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Words()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    optimizer = narrow(model, 1, monkeypatch, WORDS)
    for name, one in model.state_dict().items():
        assert torch.equal(one, before[name])
    assert torch.equal(torch.get_rng_state(), state)
    assert not optimizer._optimizer_step_pre_hooks
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
    assert type(width(256)) is int


def test_the_target_begins_as_the_script_says_and_a_narrow_model_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp(512)
    before = [float(one.detach().std()) for one in model.parameters()]
    narrow(model, 8, monkeypatch)
    after = [float(one.detach().std()) for one in model.parameters()]
    one = pytest.approx(1.0, abs=0.2)
    assert [b / a for a, b in zip(before, after, strict=True)] == [
        one,
        one,
        pytest.approx(8**0.5, rel=0.1),
        one,
        one,
        one,
    ]


def test_readouts_and_queries_begin_at_zero_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ZERO, "1")
    model = Words()
    narrow(model, 4, monkeypatch, WORDS)
    assert not model(torch.ones(2, 6, dtype=torch.long)).any()
    inner = model.blocks.layers[0].self_attn.in_proj_weight
    assert not inner[:16].any()
    assert bool((inner[16:] != 0).all())


def test_first_values_come_from_the_seed_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        model = mlp()
        state = torch.get_rng_state()
        narrow(model, 4, monkeypatch)
        assert torch.equal(torch.get_rng_state(), state), "what is drawn later stays the same"
        found.append(model[3].weight.detach().clone())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_layers_that_begin_as_copies_stay_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Words()
    first, second = (layer.linear1.weight for layer in model.blocks.layers)
    narrow(model, 4, monkeypatch, WORDS)
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()


def test_the_input_of_a_readout_is_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp()
    narrow(model, 4, monkeypatch)
    x = torch.randn(3, 64)
    hidden = model[:5](x)
    torch.testing.assert_close(model(x), F.linear(4 * hidden, model[5].weight, model[5].bias))


def test_a_tied_table_begins_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ZERO, "1")
    model = Tied()
    narrow(model, 4, monkeypatch, WORDS)
    assert model.last.weight is model.table.weight
    assert float(model.table.weight.detach().std()) == pytest.approx(1, abs=0.2)
    hidden = model.hidden(model.table(torch.arange(12))).relu()
    torch.testing.assert_close(model.last(hidden), F.linear(4 * hidden, model.table.weight, model.last.bias))


def test_logits_are_scaled_by_the_width_of_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits are q·k times sqrt(d_k of the target) / d_k, so 1/sqrt(d_k) of the target where S is 1."""
    model = Words()
    narrow(model, 4, monkeypatch, WORDS)
    inner, x = model.blocks.layers[0].self_attn, torch.randn(2, 6, 16)
    q, k, v = (
        part.view(2, 6, 2, 8).transpose(1, 2)
        for part in F.linear(x, inner.in_proj_weight, inner.in_proj_bias).chunk(3, dim=-1)
    )
    logits = q @ k.transpose(2, 3) * 32**0.5 / 8
    expected = inner.out_proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(2, 6, 16))
    torch.testing.assert_close(inner(x, x, x)[0], expected)


def test_training_and_evaluation_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that torch has for evaluation alone know no other scale of logits, so they are not used."""
    model = Words()
    narrow(model, 4, monkeypatch, WORDS)
    x = torch.randint(0, 12, (4, 6))
    expected = model(x)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
        mask = torch.arange(6).expand(4, 6) > 3
        h = model.table(x)
        found = model.blocks(h, src_key_padding_mask=mask)
        short = model.blocks(h[:, :4])
    torch.testing.assert_close(found[:, :4], short)


def test_a_failing_forward_leaves_projections_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Words()
    narrow(model, 4, monkeypatch, WORDS)
    inner = model.blocks.layers[0].self_attn
    own = inner.in_proj_weight
    with pytest.raises(AssertionError, match="expecting embedding dimension of 16"):
        inner(*[torch.randn(2, 6, 15)] * 3)
    assert inner.in_proj_weight is own


def test_a_narrow_model_is_copied_with_its_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Words()
    narrow(model, 4, monkeypatch, WORDS)
    x = torch.randint(0, 12, (4, 6))
    torch.testing.assert_close(copy.deepcopy(model)(x), model(x))


class Viewed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 64), nn.Linear(32, 32), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.flatten(1)).view(-1, 2, 32)
        return self.last(self.second(x).flatten(1))


class OwnAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.qkv, self.last = nn.Embedding(12, 64), nn.Linear(64, 192), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one.unflatten(-1, (2, -1)).transpose(1, 2) for one in self.qkv(self.table(x)).chunk(3, -1))
        return self.last(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).mean(1))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.first(x.flatten(1)), self.last.weight)


class Placed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(12, 64), nn.Linear(64, 10)
        self.places = nn.Parameter(torch.zeros(6, 64))

    def forward(self, x: Tensor) -> Tensor:
        return self.last((self.table(x) + self.places).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.last = nn.Embedding(12, 64), nn.LSTM(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(self.table(x))[0].mean(1))


def kaiming() -> nn.Module:
    """Return a net that begins as those of torchvision do."""
    model = nn.Sequential(nn.Conv2d(1, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Flatten(), nn.Linear(2304, 10))
    nn.init.kaiming_normal_(model[0].weight, mode="fan_out", nonlinearity="relu")
    return model


def changed(change: Callable[[nn.Module], Any]) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        model = mlp()
        with torch.no_grad():
            change(model)
        return model

    return made


@pytest.mark.parametrize(
    ("made", "by", "loader", "told"),
    [
        (
            mlp,
            16,
            IMAGES,
            "out_features of layer '1' (Linear) is 64, divided by 16 4; at least 8 is accepted; 2 more",
        ),
        (mlp, 3, IMAGES, "out_features of layer '1' (Linear) is 64, which cannot be divided by 3; 2 more layers"),
        (depthwise, 16, IMAGES, "layer '0' (Conv2d) is 64, divided by 16 4"),
        (Words, 8, WORDS, "the width of a head of layer 'blocks.layers.0.self_attn' (MultiheadAttention) is 32"),
        (Viewed, 4, IMAGES, "the narrow model fails in the model (Viewed): shape '[-1, 2, 32]' is invalid"),
        (OwnAttention, 4, WORDS, "OwnAttention computes attention itself"),
        (Functional, 4, IMAGES, "layer 'last' (Linear) does not run on a batch as a module"),
        (Placed, 4, WORDS, "parameter 'places' is of no layer with a rule; write its widths as coadapt.width"),
        (
            Recurrent,
            4,
            WORDS,
            "shrink: layer 'inner' (LSTM) has no rule for a narrower one; set shrink: 1, which trains the model "
            "as it is",
        ),
        (
            kaiming,
            4,
            IMAGES,
            "; own initialisers and loaded or trained weights cannot be narrowed; leave them out, or set "
            "shrink: 1, which trains the model as it is",
        ),
        (kaiming, 4, IMAGES, "shrink: weight of layer '0' (Conv2d) has "),
        (changed(lambda m: m[3].weight.normal_(0, 0.02)), 4, IMAGES, "weight of layer '3' (Linear) has mean"),
        (
            changed(lambda m: m[3].weight.mul_(2)),
            4,
            IMAGES,
            "weight of layer '3' (Linear) has values up to 0.2",
        ),
        (
            changed(lambda m: m[3].bias.zero_()),
            4,
            IMAGES,
            "bias of layer '3' (Linear) has mean 0 and deviation 0",
        ),
        (
            lambda: nn.Sequential(
                nn.Conv2d(1, 64, 8), nn.BatchNorm2d(64), nn.Conv2d(64, 60, 1, groups=4), nn.Flatten()
            ),
            8,
            IMAGES,
            "groups of layer '2' (Conv2d) is 4, which cannot be divided by 8",
        ),
    ],
)
def test_what_cannot_be_narrowed_is_refused_in_a_sentence_and_stays_as_it_is(
    made: Any, by: int, loader: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    with pytest.raises(CannotShrink) as error:
        narrow(model, by, monkeypatch, loader)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    for name, one in model.state_dict().items():
        assert torch.equal(one, before[name])
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_other_things_that_a_script_gives_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COADAPT_SHRINK", "4")
    model = mlp()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    other = torch.optim.SGD([*mlp().parameters()], lr=0.1)
    for optimizer, companions, modules, told in (
        (torch.optim.Adadelta(model.parameters()), [], [model], "Adadelta has no rule for learning rates"),
        (sgd, [mlp()], [model], "a Sequential that is not trained"),
        (sgd, [], [model, mlp()], "given 2 models, whose places are unknown"),
        (other, [], [model], "steps parameters of no model"),
    ):
        with pytest.raises(CannotShrink, match=told):
            shrink(modules, companions, [optimizer], IMAGES)


def test_a_model_that_made_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 64)).sum().backward()
    optimizer.step()
    monkeypatch.setenv("COADAPT_SHRINK", "4")
    with pytest.raises(CannotShrink, match="has made steps"):
        shrink([model], [], [optimizer], IMAGES)


@pytest.mark.parametrize("text", ["0", "-2", "two", "1.5"])
def test_a_divisor_is_a_whole_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COADAPT_SHRINK", text)
    with pytest.raises(ValueError, match=f"COADAPT_SHRINK: '{text}' is no divisor"):
        shrink([], [], [], None)


@pytest.mark.parametrize(
    "batches",
    [
        DataLoader([{"x": torch.randn(1, 8, 8), "label": i} for i in range(4)], 2),
        DataLoader([torch.randn(1, 8, 8) for _ in range(4)], 2),
        DataLoader([(torch.randn(1, 8, 8), torch.randn(1), 1) for _ in range(4)], 2),
    ],
    ids=["mapping", "tensor", "three"],
)
def test_a_batch_may_have_any_usual_form(batches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp()
    narrow(model, 4, monkeypatch, batches)
    assert model[3].weight.shape == (16, 16)


def test_a_model_that_takes_no_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(3, 64), nn.Linear(64, 3))
    with pytest.raises(CannotShrink, match="Sequential cannot be called with the inputs of a batch"):
        narrow(model, 4, monkeypatch)
