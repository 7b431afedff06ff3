"""What people write in scripts gives each trial of a group exactly what it gives alone, or is refused."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from coadapt.executor.training.fused.errors import CannotFuse
from coadapt.executor.training.fused.group import TrialGroup
from coadapt.executor.training.fused.of_trials import of_trial
from coadapt.executor.training.fused.trial_number import TrialNumber
from torch import Tensor, nn

VALUES: dict[str, list[float]] = {"lr": [0.1, 0.02, 0.3], "momentum": [0.9, 0.5, 0.0], "rate": [0.1, 0.3, 0.2]}
TRIALS = 3
Prepare = Callable[..., Any]


@pytest.fixture(autouse=True)
def _double() -> Iterable[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def data(rows: int = 6, count: int = 3, width: int = 8) -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(1)
    return [
        (torch.randn(rows, width, generator=draw), torch.randint(0, 3, (rows,), generator=draw))
        for _ in range(count)
    ]


def layers(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), *more, nn.ReLU(), nn.Linear(8, 3))


def sgd(model: nn.Module, hp: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=hp.lr, momentum=hp.momentum)


def fitted(model: nn.Module, optimizer: Any, batches: Any = None, loss: Any = F.cross_entropy) -> None:
    for x, y in batches or data():
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


def begun(prepare: Prepare, hp: Any, model: nn.Module | None = None) -> tuple[nn.Module, Any]:
    model = model or layers()
    optimizer = sgd(model, hp)
    prepare(model, optimizer)
    return model, optimizer


def metrics_over_epochs(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    history = []
    for _ in range(2):
        total, correct, seen = 0.0, 0, 0
        for x, y in data():
            optimizer.zero_grad()
            output = model(x)
            loss = F.cross_entropy(output, y)
            loss.backward()
            optimizer.step()
            total += loss.item() * x.size(0)
            correct += (output.argmax(dim=1) == y).sum().item()
            seen += len(y)
        history.append({"loss": total / seen, "accuracy": 100.0 * correct / seen})
    return history


def metrics_as_tensors(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    losses, running = [], 0
    for x, y in data():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        running = running + loss.detach()
    _, predicted = torch.max(model(x), 1)
    top = model(x).topk(2, dim=1).indices.eq(y.view(-1, 1)).any(1).float().mean()
    return torch.stack(losses).mean(), running, predicted, top.item(), sum(losses) / len(losses)


def evaluation(prepare: Prepare, hp: Any) -> Any:
    norms = nn.BatchNorm1d(8), nn.BatchNorm1d(8, momentum=None)  # of which one counts batches
    model, optimizer = begun(prepare, hp, layers(*norms, nn.Dropout(0.0)))
    fitted(model, optimizer)
    model.eval()
    found = 0.0
    with torch.no_grad():
        for x, y in data():
            output = model(x)
            found += F.cross_entropy(output, y, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            found += pred.eq(y.view_as(pred)).sum().item()
    model.train()
    fitted(model, optimizer)
    return found


def inference_mode(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    fitted(model, optimizer)
    with torch.inference_mode():
        return model(data()[0][0]).softmax(-1)


def average_by_hand(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    average = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for _ in range(3):
        fitted(model, optimizer)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                average[name].mul_(0.9).add_(parameter, alpha=0.1)
    return average


def average_of_torch(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(3):
        fitted(model, optimizer)
        average.update_parameters(model)
    return average(data()[0][0])


def decay_groups(prepare: Prepare, hp: Any) -> Any:
    model = layers(nn.LayerNorm(8))
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": hp.rate}, {"params": others}], lr=hp.lr)
    prepare(model, optimizer)
    fitted(model, optimizer)
    return None


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.last = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)
        self.places = nn.Parameter(torch.randn(2, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(x.size(0), 1, 8).repeat(1, 2, 1) + self.places
        x, _ = self.attention(x, x, x, need_weights=False)
        return self.last(x.mean(dim=1))


def attention(prepare: Prepare, hp: Any) -> Any:
    fitted(*begun(prepare, hp, Attention()))


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.table, self.cells, self.last = (
            nn.Embedding(10, 8, padding_idx=0),
            kind(8, 8, batch_first=True),
            nn.Linear(8, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        words = x.abs().mul(3).long().clamp(max=9)
        found, _ = self.cells(self.table(words))
        return self.last(found[:, -1])


def lstm(prepare: Prepare, hp: Any) -> Any:
    fitted(*begun(prepare, hp, Recurrent(nn.LSTM)))


def gru(prepare: Prepare, hp: Any) -> Any:
    fitted(*begun(prepare, hp, Recurrent(nn.GRU)))


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = nn.GRUCell(2, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(x.size(0), 8)
        for part in x.chunk(4, dim=1):
            state = self.cell(part, state)
        return self.last(state)


def cells(prepare: Prepare, hp: Any) -> Any:
    fitted(*begun(prepare, hp, Cells()))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.an = nn.Conv2d(1, 4, 3, padding="same"), nn.BatchNorm2d(4)
        self.b, self.bn = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False), nn.GroupNorm(2, 4)
        self.c, self.d = nn.Conv2d(4, 6, 1), nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.line, self.last = nn.Conv1d(4, 4, 3), nn.LazyLinear(3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 1, 2, 4)
        x = F.max_pool2d(F.relu(self.an(self.a(x)), inplace=True), (1, 2))
        x = x + F.avg_pool2d(self.bn(self.b(x)), 1)
        x = F.adaptive_avg_pool2d(self.d(F.silu(self.c(x))), (2, 2))
        x = self.line(x.view(x.size(0), 4, -1))
        return self.last(torch.flatten(x, 1))


def convolutions(prepare: Prepare, hp: Any) -> Any:
    model = Convolutions()
    model(data()[0][0])
    model, optimizer = begun(prepare, hp, model)
    fitted(model, optimizer)
    model.eval()
    return model(data()[0][0])


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.last, self.scale = nn.Linear(8, 8), nn.Linear(8, 3), nn.Parameter(torch.ones(1))
        self.register_buffer("seen", torch.zeros(8))
        self.register_buffer("calls", torch.tensor(0))
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.calls += 1
        y = x + self.scale * self.a(x)
        self.seen = 0.9 * self.seen + 0.1 * y.detach().mean(0)
        y += x
        return self.last(y * y.sigmoid())


def own_buffers(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp, Residual())
    fitted(model, optimizer)
    return model.seen, model.count, model.calls.item()


def losses(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    criteria = [
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.CrossEntropyLoss(label_smoothing=hp.rate),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])),
        nn.CrossEntropyLoss(ignore_index=1),
        nn.CrossEntropyLoss(reduction="sum"),
        lambda o, y: F.nll_loss(F.log_softmax(o, dim=1), y),
        lambda o, y: F.mse_loss(o, F.one_hot(y, 3).double()),
        lambda o, y: F.binary_cross_entropy_with_logits(o, F.one_hot(y, 3).double()),
        lambda o, y: F.cross_entropy(o, F.one_hot(y, 3).double()),
        lambda o, y: F.kl_div(F.log_softmax(o, -1), torch.full_like(o, 1 / 3), reduction="batchmean"),
        lambda o, y: F.smooth_l1_loss(o, F.one_hot(y, 3).double()) + hp.rate * o.pow(2).mean(),
        lambda o, y: F.cross_entropy(o, y, reduction="none").mean(),
        lambda o, y: -o.log_softmax(1)[torch.arange(len(y)), y].mean(),
        lambda o, y: -o.log_softmax(1).gather(1, y[:, None]).squeeze(1).mean(),
        lambda o, y: F.cross_entropy(o, y) + 1e-2 * sum(p.abs().sum() for p in model.parameters()),
        lambda o, y: F.cross_entropy(o, y) + hp.rate * sum(p.norm() ** 2 for p in model.parameters()),
    ]
    for criterion in criteria:
        fitted(model, optimizer, loss=criterion)


def gradients_by_hand(prepare: Prepare, hp: Any) -> Any:
    model, _ = begun(prepare, hp)
    x, y = data()[0]
    params = list(model.parameters())
    grads = torch.autograd.grad(F.cross_entropy(model(x), y), params)
    with torch.no_grad():
        for parameter, grad in zip(params, grads, strict=True):
            parameter -= hp.lr * grad
    return [grad.norm() for grad in grads]


def gradient_penalty(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    for x, y in data():
        x = x.clone().requires_grad_(True)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        (grad,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + 0.1 * grad.pow(2).sum()).backward()
        optimizer.step()


def accumulation(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    for at, (x, y) in enumerate(data(count=4)):
        (F.cross_entropy(model(x), y) / 2).backward()
        if (at + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return [parameter.grad for parameter in model.parameters()]


def clipping(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    norms = []
    for at, (x, y) in enumerate(data(count=5)):
        optimizer.zero_grad()
        (F.cross_entropy(model(x), y) * 10).backward()
        if at == 0:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        elif at == 1:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5, norm_type=float("inf")))
        elif at == 2:
            nn.utils.clip_grad_value_(model.parameters(), 0.05)
        elif at == 3:
            norms.append(sum(p.grad.detach().norm(2).item() ** 2 for p in model.parameters()) ** 0.5)
        else:
            for parameter in model.parameters():
                parameter.grad.data.clamp_(-0.1, 0.1)
        optimizer.step()
    return norms


def clipping_of_trials(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    F.cross_entropy(model(data()[0][0]), data()[0][1]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), hp.rate)
    optimizer.step()


def mixup(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    for x, y in data():
        order, part = torch.arange(len(x) - 1, -1, -1), hp.rate
        mixed = part * x + (1 - part) * x[order]
        output = model(mixed)
        optimizer.zero_grad()
        (part * F.cross_entropy(output, y) + (1 - part) * F.cross_entropy(output, y[order])).backward()
        optimizer.step()


def noise_of_trials(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    noise = torch.linspace(-1, 1, 8)
    fitted(model, optimizer, [(x + noise * hp.rate, y) for x, y in data()])


def states(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp, layers(nn.BatchNorm1d(8)))
    fitted(model, optimizer)
    best = copy.deepcopy(model.state_dict())
    fitted(model, optimizer)
    model.load_state_dict(best)
    other = copy.deepcopy(model)
    fitted(model, optimizer)
    file = io.BytesIO()
    torch.save({"model": other.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    model.load_state_dict(read["model"])
    optimizer.load_state_dict(read["optimizer"])
    fitted(model, optimizer)
    return other(data()[0][0]), list(other.state_dict().values())


def optimizer_copies(prepare: Prepare, hp: Any) -> Any:
    model = layers()
    optimizer = torch.optim.Adam(model.parameters(), lr=hp.lr)
    prepare(model, optimizer)
    fitted(model, optimizer)
    kept = copy.deepcopy(optimizer.state_dict())
    fitted(model, optimizer)
    optimizer.load_state_dict(kept)
    fitted(model, optimizer)


def frozen(prepare: Prepare, hp: Any) -> Any:
    model = layers()
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=hp.lr)
    prepare(model, optimizer)
    fitted(model, optimizer)
    return sum(p.numel() for p in model.parameters()), [p.shape for p in model.parameters()]


def hooks(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    found: list[Any] = []
    model[0].register_forward_hook(lambda _, given, output: found.append(output.norm().item()))
    model[0].weight.register_hook(lambda grad: grad / (1 + grad.norm()))
    fitted(model, optimizer)
    return found


def backward_hooks(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    found: list[Any] = []
    model[0].register_full_backward_hook(lambda _, given, output: found.append(output[0].norm().item()))
    fitted(model, optimizer)
    return found


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return grad * 2 * x / (1 + grad.norm())


def own_function(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    fitted(model, optimizer, loss=lambda o, y: F.cross_entropy(Doubled.apply(o), y))


def checkpointed(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    again = torch.utils.checkpoint.checkpoint
    fitted(model, optimizer, loss=lambda o, y: F.cross_entropy(again(torch.tanh, o, use_reentrant=False), y))


def norms_of_weights(prepare: Prepare, hp: Any) -> Any:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 3))
    fitted(*begun(prepare, hp, model))


def closure(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    found = []
    for x, y in data():

        def again(x: Tensor = x, y: Tensor = y) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        found.append(optimizer.step(again).item())
    return found


def odd_tensors(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    fitted(model, optimizer)
    out = model(data()[0][0])
    weight = model[0].weight
    confusion = torch.zeros(3, 3)
    confusion = confusion.index_put((data()[0][1], out.argmax(1)), torch.ones(6), accumulate=True)
    return [
        out.mean(-1),
        out.std(),
        out.var(0),
        out.max(),
        out.max(1).values,
        out.min(dim=0)[0],
        out.argmax(),
        out.sum(-1),
        out.t() @ out,
        out[:, 1:],
        out[-1],
        out[out.shape[0] // 2],
        out.view(-1).shape,
        out.reshape(2, 3, 3).permute(2, 0, 1),
        out.norm(),
        out.abs().mean().sqrt(),
        torch.cat([out, out], -1),
        torch.stack([out, out], -1),
        out.cumsum(0),
        out.sort(1)[0],
        out.T,
        out.mT,
        out.flatten(),
        out.unsqueeze(-1).squeeze(),
        out.expand(2, 6, 3),
        out[None].sum((0, 1)),
        out.chunk(2, 0)[1],
        confusion,
        torch.einsum("bi,bj->ij", out, out),
        torch.linalg.norm(weight, dim=1),
        weight.data.mean(),
        weight.grad.abs().max(),
        out.new_zeros(3) + out,
        torch.zeros_like(out),
        out.long().float(),
        out.detach().requires_grad,
        out.logsumexp(1),
        out.softmax(1).sum(1),
        torch.where(out > 0, out, 0.0),
        out.masked_fill(out < 0, -1.0),
        out.round(),
        out.mean((0, 1)),
        out.prod(1),
        (out > 0).all(),
        (out > 9).any(),
        F.normalize(out, dim=1),
        F.cosine_similarity(out, out + 1),
        torch.cdist(out, out + 1),
        out.outer(out[0]) if out.dim() == 1 else 0,
        out.median(),
        F.pad(out, (1, 1)),
        F.one_hot(out.argmax(1), 3),
        out.roll(1, 0),
        out.flip(0),
        torch.linspace(0, 1, 3) * out,
        1 - out,
        2**out,
        out % 2,
        out // 1,
        -out,
        ~(out > 0),
        (out > 0) & (out < 1),
        out.clamp(0, 1),
        out.tanh().atanh(),
        torch.bmm(out[None], out.T[None]),
        out.quantile(0.5),
        out.tril(),
        torch.dot(out[0], out[1]),
        F.linear(out[0], model[2].weight.T[:3, :3]),
        F.linear(out[None, None], torch.ones(2, 3)),
        len(out),
        out.size(),
        out.nelement(),
    ]


def two_losses(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    for x, y in data():
        optimizer.zero_grad()
        output = model(x)
        torch.autograd.backward([F.cross_entropy(output, y), hp.rate * output.pow(2).mean()])
        optimizer.step()


def generator_and_critic(prepare: Prepare, hp: Any) -> Any:
    model = nn.ModuleDict({"made": nn.Linear(8, 8), "told": nn.Linear(8, 1)})
    maker = torch.optim.Adam(model["made"].parameters(), lr=hp.lr, eps=hp.rate * 1e-6)
    teller = torch.optim.Adam(model["told"].parameters(), lr=hp.lr)
    prepare(model, maker, teller)
    loss = nn.BCEWithLogitsLoss()
    for x, _ in data():
        false = model["made"](x)
        teller.zero_grad()
        (
            loss(model["told"](x), torch.ones(6, 1)) + loss(model["told"](false.detach()), torch.zeros(6, 1))
        ).backward()
        teller.step()
        maker.zero_grad()
        loss(model["told"](false), torch.ones(6, 1)).backward()
        maker.step()


def sharpness(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    for x, y in data():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        norm = torch.norm(torch.stack([p.grad.norm(p=2) for p in model.parameters()]), p=2)
        steps = [p.grad * (hp.rate / (norm + 1e-12)) for p in model.parameters()]
        with torch.no_grad():
            for parameter, step in zip(model.parameters(), steps, strict=True):
                parameter.add_(step)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for parameter, step in zip(model.parameters(), steps, strict=True):
                parameter.sub_(step)
        optimizer.step()


def teacher(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    other = copy.deepcopy(model).requires_grad_(False)
    for x, y in data():
        optimizer.zero_grad()
        (F.cross_entropy(model(x), y) + F.mse_loss(model(x), other(x))).backward()
        optimizer.step()
        for own, given in zip(other.parameters(), model.parameters(), strict=True):
            own.data = own.data * hp.rate + given.data * (1 - hp.rate)
    return list(other.parameters())


def numbers_of_layers(prepare: Prepare, hp: Any) -> Any:
    norms = nn.BatchNorm1d(8, eps=hp.rate, momentum=hp.rate), nn.LayerNorm(8, eps=hp.rate), nn.LeakyReLU(hp.rate)
    fitted(*begun(prepare, hp, layers(*norms)))


def attack(prepare: Prepare, hp: Any) -> Any:
    model, _ = begun(prepare, hp)
    x = data()[0][0].requires_grad_()
    F.cross_entropy(model(x), data()[0][1]).backward()
    return x.grad.sign()


def two_models_of_which_one_is_prepared(prepare: Prepare, hp: Any) -> Any:
    model, _ = begun(prepare, hp)
    (model(data()[0][0]) * layers()(data()[0][0])).sum().backward()


def precision(prepare: Prepare, hp: Any) -> Any:
    model, optimizer = begun(prepare, hp)
    fitted(model, optimizer)
    model.float()
    return model(data()[0][0].float()).double().round(decimals=4)


def rate_as_a_tensor(prepare: Prepare, hp: Any) -> Any:
    model = layers()
    prepare(model, torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1)))


SCRIPTS = [
    two_losses,
    generator_and_critic,
    sharpness,
    teacher,
    numbers_of_layers,
    attack,
    two_models_of_which_one_is_prepared,
    precision,
    rate_as_a_tensor,
    metrics_over_epochs,
    metrics_as_tensors,
    evaluation,
    inference_mode,
    average_by_hand,
    average_of_torch,
    decay_groups,
    attention,
    lstm,
    gru,
    cells,
    convolutions,
    own_buffers,
    losses,
    gradients_by_hand,
    gradient_penalty,
    accumulation,
    clipping,
    clipping_of_trials,
    mixup,
    noise_of_trials,
    states,
    optimizer_copies,
    frozen,
    hooks,
    backward_hooks,
    own_function,
    checkpointed,
    norms_of_weights,
    closure,
    odd_tensors,
]


def outcome(
    script: Callable[[Prepare, Any], Any], trials: Sequence[int] | None, trial: int = 0
) -> tuple[Any, Any]:
    """Return what a script gives back and the parameters and buffers that it ends with."""
    torch.manual_seed(0)
    models: list[nn.Module] = []

    def prepare(model: nn.Module, *optimizers: Any) -> None:
        models.append(model)
        if trials is not None:
            TrialGroup([model], optimizers, [], TRIALS)

    own = {name: TrialNumber(of) if trials is not None else of[trial] for name, of in VALUES.items()}
    found = script(prepare, SimpleNamespace(**own))
    return found, dict(models[0].state_dict())


def same(own: Any, alone: Any, at: str = "") -> None:
    if isinstance(alone, Tensor):
        assert isinstance(own, Tensor), at
        assert own.dtype == alone.dtype, at
        torch.testing.assert_close(own, alone, rtol=1e-9, atol=1e-10, msg=lambda told: f"{at}: {told}")
    elif isinstance(alone, Mapping):
        for name in alone:
            same(own[name], alone[name], f"{at}.{name}")
    elif isinstance(alone, (list, tuple)):
        for i, (one, other) in enumerate(zip(own, alone, strict=True)):
            same(one, other, f"{at}[{i}]")
    elif alone is None or isinstance(alone, bool):
        assert own is alone, at
    else:
        assert own == pytest.approx(alone, rel=1e-9, abs=1e-10), at


REFUSED = {
    "attack": "a tensor that is the same for all trials requires a gradient",
    "two_models_of_which_one_is_prepared": "give `prepare` all models",
    "rate_as_a_tensor": "lr is a tensor, and in a group of trials a number is accepted",
    "clipping_of_trials": "float: one number is asked for",
    "own_function": "backward: Doubled is no function of torch",
    "backward_hooks": "or a module has a backward hook",
    "gradient_penalty": "one of them is the same for all",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.__name__)
def test_a_script_gives_each_trial_of_a_group_what_it_gives_alone_or_is_refused(script: Any) -> None:
    if told := REFUSED.get(script.__name__):
        with pytest.raises(CannotFuse, match=told):
            outcome(script, range(TRIALS))
        return
    found = outcome(script, range(TRIALS))
    for trial in range(TRIALS):
        same(of_trial(found, trial), outcome(script, None, trial))
