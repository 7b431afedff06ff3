"""After a backward every gradient is that of the whole batch, in however many passes, on however many replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from coadapt.executor.protocol.messages import Join
from coadapt.executor.training.collective.group import Disagreement, Group
from coadapt.executor.training.data.units import Split
from coadapt.executor.training.gradients import backward
from coadapt.executor.training.gradients.gradient_noise import GradientNoise, Preconditioner
from coadapt.executor.training.gradients.gradients import Gradients
from coadapt.executor.training.gradients.noise_meter import NoiseMeter
from coadapt.executor.training.gradients.part_plan import PartPlan
from coadapt.executor.training.gradients.step_timer import StepTimer
from coadapt.executor.training.losses.loss_kind import Kind
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.breaking_guard import BreakingGuard
from tests.support.opaque import OpaqueMean
from tests.support.ranks import on_ranks

SAMPLES, CLASSES = 13, 3  # that no number of parts divides
Backward = Callable[[Gradients, "Model", Tensor, Tensor], None]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inside = nn.Linear(7, 8)
        self.head = nn.Linear(8, CLASSES)
        self.aside = nn.Linear(8, CLASSES)  # that only some samples reach

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inside(x)))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self(x), F.one_hot(y, CLASSES).float())


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(0, CLASSES, (SAMPLES,), generator=generator)
    return torch.randn(SAMPLES, 7, generator=generator), y


def gradients_of(
    model: Model, group: Group | None = None, loss: Kind = Kind.UNKNOWN, guard: Any = None
) -> Gradients:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    meter = NoiseMeter(GradientNoise(initial_batch_size=SAMPLES), Preconditioner(optimizer))
    parameters = lambda: list(model.parameters())  # noqa: E731
    found = Gradients(parameters, meter, StepTimer(torch.device("cpu")), lambda said: None, guard, loss)
    found.attach(group) if group is not None else found.parameters_changed()
    backward.watch(found)
    return found


def in_parts(
    gradients: Gradients, model: Model, act: Backward, split: Split, group: Group | None, batch: Any
) -> int:
    """Do one batch again as often as it has to be. Return how often it was done."""
    x, y = batch
    rank = group.rank if group is not None else 0
    for tries in range(1, 6):
        weights = gradients.weights
        whole = weights.whole or weights.trial
        now = Split(split.replicas, len(x), 1 if weights.undivided else split.passes, least=len(x) if whole else 1)
        parts = now.parts(len(x), rank)
        count = now.replicas * len(parts)
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            plan = PartPlan(part.samples, len(x), part.copies, 1, count, len(x), visible=last, last=last)
            gradients.begin_part(plan)
            act(gradients, model, part.of(x), part.of(y))
            if gradients.undone:
                break
        else:
            return tries
    raise AssertionError("done again and again")


def grads(model: nn.Module) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def alone(act: Backward, batches: int = 1) -> list[Tensor | None]:
    """Return what the plain script has. `act` may call what does nothing there."""
    backward.watch(None)
    model, (x, y) = Model(), data()
    plain = gradients_of(model)
    backward.watch(None)
    for _ in range(batches):
        plain.begin_part(PartPlan(len(x), len(x)))
        act(plain, model, x, y)
    return grads(model)


def on_all(replicas: int, passes: int, act: Backward, batches: int = 1, loss: Kind = Kind.UNKNOWN) -> list[Any]:
    """Return (gradients, times that the last batch was done) of each replica."""

    def train(group: Group | None) -> tuple[list[Tensor | None], int]:
        model = Model()
        gradients = gradients_of(model, group, loss)
        split = Split(replicas, SAMPLES, passes)
        tries = [in_parts(gradients, model, act, split, group, data()) for _ in range(batches)]
        backward.watch(None)
        return grads(model), tries[-1]

    return on_ranks(replicas, train) if replicas > 1 else [train(None)]


def check(found: Sequence[Any], wanted: Sequence[Tensor | None]) -> None:
    for mine, _ in found:
        for gradient, plain in zip(mine, wanted, strict=True):
            if plain is None:
                assert gradient is None
            else:
                torch.testing.assert_close(gradient, plain, rtol=2e-5, atol=2e-6)


def of(loss: Callable[[Model, Tensor, Tensor], Tensor]) -> Backward:
    return lambda gradients, model, x, y: loss(model, x, y).backward()


def tokens(x: Tensor, y: Tensor) -> Tensor:
    """Return targets of which some are padding, more of them in some parts than in others."""
    return torch.where(x[:, 0] > 0.3, -100, y)


def two_backwards(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
    model.loss(x, y).backward()
    model.head(torch.tanh(model.inside(x))).square().sum().backward()


def second_is(loss: Callable[[Model, Tensor, Tensor], Tensor]) -> Backward:
    """Return a script that makes two backwards, of which the second has the batch done again."""

    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        model.loss(x, y).backward()
        loss(model, x, y).backward()

    return act


def with_a_weight(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
    gradients.weights.weigh(float((y > 0).sum()))
    ((model(x).square().sum(1) * (y > 0)).sum() / (y > 0).sum()).backward()


def in_pieces(size: Callable[[int], int], loss: Callable[[Tensor, Tensor, int], Tensor]) -> Backward:
    """Return a script that cuts what it is given into pieces, and makes a backward for each."""

    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        for a, b in zip(x.split(size(len(x))), y.split(size(len(x))), strict=True):
            loss(model(a), b, len(x)).backward()

    return act


def a_quarter(samples: int) -> int:
    """Return the size of a piece, as `Tensor.chunk(4)` cuts."""
    return -(-samples // 4)


def mean(scores: Tensor, y: Tensor, samples: int) -> Tensor:
    return F.cross_entropy(scores, y) * len(y) / samples


def squares(scores: Tensor, y: Tensor, samples: int) -> Tensor:
    return (scores - F.one_hot(y, CLASSES)).square().mean() * (len(y) / samples)


def total(scores: Tensor, y: Tensor, samples: int) -> Tensor:
    return F.cross_entropy(scores, y, reduction="sum")


def quartered(scores: Tensor, y: Tensor, samples: int) -> Tensor:
    return F.cross_entropy(scores, y) / 4


PIECES: dict[str, Backward] = {
    "pairs, weighed": in_pieces(lambda samples: 2, mean),
    "pairs, weighed by hand": in_pieces(lambda samples: 2, squares),
    "pairs, summed": in_pieces(lambda samples: 2, total),
    "pairs, summed, over the part": in_pieces(lambda samples: 2, lambda s, y, n: total(s, y, n) / n),
    "pairs, over the batch": in_pieces(lambda samples: 2, lambda s, y, n: mean(s, y, SAMPLES)),
    "fours": in_pieces(lambda samples: 4, mean),
    "quarters": in_pieces(a_quarter, mean),
    "quarters, divided by four": in_pieces(a_quarter, quartered),
    "pairs with padding": in_pieces(
        lambda samples: 2,
        lambda s, y, n: F.cross_entropy(s, torch.where(y == 0, -100, y).index_fill(0, y[:1] * 0, 1)),
    ),
    "pairs and weight decay": in_pieces(
        lambda samples: 2, lambda s, y, n: mean(s, y, n) + 0.1 * s.square().mean()
    ),
    "pairs that meet": in_pieces(lambda samples: 2, lambda s, y, n: (s @ s.T).mean() * len(y) / n),
    "an opaque mean": in_pieces(lambda samples: 2, lambda s, y, n: OpaqueMean.apply(s.square()) * len(y) / n),
}


def both_classes(model: Model, x: Tensor, y: Tensor) -> Tensor:
    scores, mask, wanted = model(x), y > 0, F.one_hot(y, CLASSES).float()
    return F.mse_loss(scores[mask], wanted[mask]) + 0.5 * F.mse_loss(scores[~mask], wanted[~mask])


CHOSEN: dict[str, Backward] = {
    "one class": of(lambda m, x, y: F.mse_loss(m(x)[y > 0], F.one_hot(y, CLASSES).float()[y > 0])),
    "one class of targets": of(lambda m, x, y: F.cross_entropy(m(x)[y > 0], y[y > 0])),
    "one class of inputs": of(lambda m, x, y: F.mse_loss(m(x[y > 0]), F.one_hot(y, CLASSES).float()[y > 0])),
    "both classes": of(both_classes),
    "values, not samples": of(lambda m, x, y: F.mse_loss(s := m(x)[m(x) > 0], s.detach() * 2)),
    "half of the inputs": of(lambda m, x, y: m.loss(x[: len(x) // 2], y[: len(x) // 2])),
    "half of the outputs": of(lambda m, x, y: F.cross_entropy(m(x)[: len(x) // 2], y[: len(x) // 2])),
    "half, by indices": of(lambda m, x, y: F.cross_entropy(m(x)[torch.arange(len(x) // 2)], y[: len(x) // 2])),
    "the first sample": of(lambda m, x, y: F.cross_entropy(m(x)[0], y[0])),
    "a loss of a mean": of(lambda m, x, y: F.mse_loss(m(x).mean(), torch.tensor(3.0))),
    "a loss of means": of(lambda m, x, y: F.mse_loss(m(x).mean(0), torch.ones(CLASSES))),
}


def two_tasks(model: Model, x: Tensor, y: Tensor, targets: Tensor) -> Tensor:
    """Add two means times trained weights, and these weights."""
    losses = torch.stack([model.loss(x, y), F.cross_entropy(model(x), targets)])
    weights = model.aside.bias[:2]
    return (torch.exp(-weights) * losses + weights).sum()


ACTS: dict[str, Backward] = {
    "a method of the model": of(lambda m, x, y: m.loss(x, y)),
    "cross_entropy": of(lambda m, x, y: F.cross_entropy(m(x), y)),
    "cross_entropy, summed": of(lambda m, x, y: F.cross_entropy(m(x), y, reduction="sum")),
    "targets that are ignored": of(lambda m, x, y: F.cross_entropy(m(x), tokens(x, y))),
    "weighted classes": of(lambda m, x, y: F.cross_entropy(m(x), y, weight=torch.tensor([1.0, 3.0, 0.5]))),
    "smoothed and weighted": of(
        lambda m, x, y: F.cross_entropy(m(x), y, weight=torch.tensor([1.0, 3.0, 0.5]), label_smoothing=0.1)
    ),
    "a sum over the batch size": of(lambda m, x, y: m(x).square().sum() / SAMPLES),
    "a sum over this part": of(lambda m, x, y: m(x).square().sum() / len(x)),
    "a mean of what is counted": of(lambda m, x, y: (m(x).square().sum(1) * (y > 0)).sum() / (y > 0).sum()),
    "weight decay in the loss": of(lambda m, x, y: m.loss(x, y) + 0.1 * m.head.weight.square().sum()),
    "terms of several kinds": of(lambda m, x, y: m.loss(x, y) + 0.1 * m(x).square().sum()),
    "a mean and a counted mean": of(lambda m, x, y: m.loss(x, y) + F.cross_entropy(m(x), tokens(x, y))),
    "two backwards": two_backwards,
    "two backwards, the second an opaque mean": second_is(lambda m, x, y: OpaqueMean.apply(m(x).square())),
    "two backwards, the second over pairs": second_is(
        lambda m, x, y: (m(x)[:, None] - m(x)[None]).square().mean()
    ),
    "a given weight": with_a_weight,
    "an opaque mean": of(lambda m, x, y: OpaqueMean.apply((m(x) - F.one_hot(y, CLASSES)).square())),
    "a root of a mean": of(lambda m, x, y: m.loss(x, y).sqrt()),
    "pairs of samples": of(lambda m, x, y: (m(x)[:, None] - m(x)[None]).square().mean()),
    "two tasks, weighed by what is trained": of(lambda m, x, y: two_tasks(m, x, y, y)),
    "two tasks, one of them with padding": of(lambda m, x, y: two_tasks(m, x, y, tokens(x, y))),
    "a factor that is a tensor": of(lambda m, x, y: torch.tensor(2.0) * m(x).square().sum()),
    **{f"in pieces: {name}": act for name, act in PIECES.items()},
    **{f"of some samples: {name}": act for name, act in CHOSEN.items()},
    "all at once": lambda g, m, x, y: torch.autograd.backward([m.loss(x, y), m(x).square().mean()]),
}


@pytest.mark.parametrize(("replicas", "passes"), [(1, 3), (2, 1), (3, 2)])
@pytest.mark.parametrize("name", ACTS)
def test_the_gradient_is_that_of_the_whole_batch(name: str, replicas: int, passes: int) -> None:
    check(on_all(replicas, passes, ACTS[name]), alone(ACTS[name]))


@pytest.mark.parametrize(
    "name",
    [
        "a method of the model",
        "cross_entropy, summed",
        "targets that are ignored",
        "two backwards, the second an opaque mean",
    ],
)
def test_what_a_script_accumulates_over_batches_adds_up(name: str) -> None:
    check(on_all(2, 2, ACTS[name], batches=3), alone(ACTS[name], batches=3))


@pytest.mark.parametrize("name", ["an opaque mean", "a mean of what is counted"])
def test_a_batch_is_done_again_only_until_it_is_known_what_its_loss_is(name: str) -> None:
    assert {tries for _, tries in on_all(2, 1, ACTS[name], batches=4)} == {1}


@pytest.mark.parametrize("name", ["a root of a mean", "pairs of samples"])
def test_a_loss_that_is_no_sum_over_samples_is_computed_from_whole_batches(name: str) -> None:
    check(on_all(2, 2, ACTS[name], loss=Kind.BATCH), alone(ACTS[name]))


def is_whole(replicas: int, act: Backward, batches: int = 2) -> bool:
    """Return whether each replica computes whole batches, after some of them."""

    def train(group: Group) -> bool:
        model = Model()
        gradients = gradients_of(model, group)
        for _ in range(batches):
            in_parts(gradients, model, act, Split(replicas, SAMPLES), group, data())
        return gradients.weights.whole

    (found,) = set(on_ranks(replicas, train))
    return found


@pytest.mark.parametrize(
    ("replicas", "name", "whole"),
    [
        (2, "pairs, weighed", True),  # parts of 7 and 6 samples are 4 and 3 pieces
        (2, "fours", False),  # 4 + 3 and 4 + 2
        (2, "quarters, divided by four", True),
        (2, "pairs and weight decay", True),
        (3, "quarters", True),  # 2 + 2 + 1 and 1 + 1 + 1 + 1
        (7, "pairs, weighed", False),  # each part is one piece
        (7, "quarters", True),
    ],
)
def test_pieces_of_parts_add_up_where_each_is_weighed_by_its_samples_and_parts_have_as_many(
    replicas: int, name: str, whole: bool
) -> None:
    assert is_whole(replicas, PIECES[name]) is whole


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("one class", False),
        ("one class of targets", False),
        ("one class of inputs", True),  # looks like a half
        ("both classes", False),
        ("half of the inputs", True),
        ("half of the outputs", True),
        ("half, by indices", True),
        ("the first sample", True),
    ],
)
def test_a_mean_over_what_a_mask_chooses_is_divided_and_one_over_places_is_not(name: str, whole: bool) -> None:
    assert is_whole(2, CHOSEN[name]) is whole


def test_two_tasks_that_are_weighed_by_what_is_trained_are_divided_as_long_as_no_target_is_left_out() -> None:
    assert not is_whole(2, ACTS["two tasks, weighed by what is trained"])
    assert is_whole(2, ACTS["two tasks, one of them with padding"])


def test_who_has_seen_whole_batches_tells_that_they_are_in_pieces() -> None:
    """A part as small as one piece looks like no piece; a factor for all four pieces is wrong there."""

    act = in_pieces(lambda samples: 4, quartered)

    def train(group: Group) -> tuple[bool, list[Tensor | None]]:
        model, (x, y) = Model(), data()
        x, y = x[:12], y[:12]
        gradients = gradients_of(model)
        if group.rank == 0:
            gradients.begin_part(PartPlan(12, 12))
            act(gradients, model, x, y)
            gradients.begin_part(PartPlan(12, 12))
        gradients.attach(group)
        model.zero_grad()
        in_parts(gradients, model, act, Split(3, 12), group, (x, y))
        backward.watch(None)
        return gradients.weights.whole, grads(model)

    backward.watch(None)
    model, (x, y) = Model(), data()
    for a, b in zip(x[:12].split(4), y[:12].split(4), strict=True):
        quartered(model(a), b, 12).backward()
    for whole, found in on_ranks(3, train):
        assert whole
        check([(found, 1)], grads(model))


def test_parameters_that_only_some_replicas_reach_are_combined_and_those_that_none_does_stay_without() -> None:
    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        inside = torch.tanh(model.inside(x))
        rows = (y == 0).float().unsqueeze(1)
        loss = (model.head(inside) * (1 - rows)).sum()
        if rows.any():
            loss = loss + (model.aside(inside) * rows).sum()
        loss.backward()

    check(on_all(3, 2, act), alone(act))
    check(on_all(2, 2, ACTS["cross_entropy"]), alone(ACTS["cross_entropy"]))
    assert alone(ACTS["cross_entropy"])[-1] is None


def test_parameters_that_are_unfrozen_later_are_combined() -> None:
    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        batch = getattr(model, "seen", 0)
        model.head.requires_grad_(batch > 1)
        model.zero_grad()
        model.loss(x, y).backward()
        model.seen = batch + gradients.hidden * 0 + 1  # type: ignore[assignment]

    check(on_all(2, 1, act, batches=3), alone(act, batches=3))


def test_gradients_that_no_backward_brought_are_combined_before_a_step() -> None:
    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        parameters = [*model.inside.parameters(), *model.head.parameters()]
        for parameter, found in zip(parameters, torch.autograd.grad(model.loss(x, y), parameters), strict=True):
            parameter.grad = found
        gradients.before_step(list(model.parameters()))

    check(on_all(2, 2, act), alone(act))


def test_one_replica_in_one_pass_is_left_alone() -> None:
    """Bit for bit, and the script's own gradient tensors stay."""
    model, (x, y) = Model(), data()
    gradients = gradients_of(model)
    gradients.begin_part(PartPlan(SAMPLES, SAMPLES))
    model.loss(x, y).backward()
    first = [parameter.grad for parameter in model.parameters()]
    model.loss(x, y).backward()
    backward.watch(None)
    assert all(p.grad is before for p, before in zip(model.parameters(), first, strict=True))
    plain = Model()
    for _ in range(2):
        plain.loss(x, y).backward()
    assert all(torch.equal(a, b) for a, b in zip(grads(model), grads(plain), strict=True) if a is not None)


def test_a_hidden_pass_shows_the_gradients_of_its_part_and_leaves_none_behind() -> None:
    model, (x, y) = Model(), data()
    gradients = gradients_of(model)
    gradients.begin_part(PartPlan(7, SAMPLES, parts=2, visible=False, last=False))
    model.loss(x[:7], y[:7]).backward()
    assert gradients.hidden
    assert model.head.weight.grad is not None
    gradients.begin_part(PartPlan(6, SAMPLES, parts=2))
    assert model.head.weight.grad is None
    model.loss(x[7:], y[7:]).backward()
    backward.watch(None)
    check([(grads(model), 1)], alone(ACTS["a method of the model"]))


class Words:
    """A guard whose first word is what it is given."""

    def __init__(self, word: int) -> None:
        self._word = word

    def words(self) -> Sequence[int]:
        return [self._word, 0, 0, 4095]

    def differs(self, word: int) -> str:
        return f"word {word} is {self._word} here"


@pytest.mark.parametrize("words", [(7, 7), (7, 8), (0, 4095), (1, 3)])
def test_what_must_be_alike_on_all_replicas_is_compared_whenever_gradients_are(words: tuple[int, int]) -> None:
    def act(group: Group) -> str:
        model = Model()
        gradients = gradients_of(model, group, guard=Words(words[group.rank]))
        try:
            in_parts(gradients, model, ACTS["cross_entropy"], Split(2, SAMPLES), group, data())
        except Disagreement as told:
            return str(told)
        return ""

    told = on_ranks(2, act)
    assert told == (["", ""] if words[0] == words[1] else [f"word 0 is {word} here" for word in words])


def after_a_loss(tmp_path: Path, act: Backward, batches: int, last: int) -> list[Any]:
    """Return gradients that two replicas accumulate over batches. The last is done again in another group."""

    def train(group: Group) -> tuple[list[Tensor | None], int]:
        model = Model()
        gradients, (x, y) = gradients_of(model, group, guard=BreakingGuard(group, last - 1)), data()
        (part,) = Split(2, SAMPLES, 1).parts(SAMPLES, group.rank)
        plan = PartPlan(part.samples, SAMPLES, part.copies, 1, 2, SAMPLES)
        for _ in range(batches):
            gradients.begin_part(plan)
            act(gradients, model, part.of(x), part.of(y))
        assert gradients.undone
        store = dist.FileStore(str(tmp_path / "store"), 2)
        join = Join(2, group.rank, 2, 1, group.rank, 2, "", 0)
        gradients.attach(Group.form(join, torch.device("cpu"), store))
        gradients.begin_part(plan)
        act(gradients, model, part.of(x), part.of(y))
        backward.watch(None)
        assert not gradients.undone
        return grads(model), 1

    return on_ranks(2, train)


@pytest.mark.parametrize(("batches", "last"), [(1, 1), (1, 2), (2, 3), (2, 4)])
def test_a_group_that_breaks_in_any_backward_has_nothing_counted_twice(
    tmp_path: Path, batches: int, last: int
) -> None:
    check(after_a_loss(tmp_path, two_backwards, batches, last), alone(two_backwards, batches))
