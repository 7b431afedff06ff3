"""Parts of a batch are weighted so that together they are the batch, and replicas agree on what its loss is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.gradients.part_plan import PartPlan
from coadapt.executor.training.losses.loss_kind import Kind
from coadapt.executor.training.losses.loss_weights import (
    WHOLE_BATCHES,
    Again,
    Agreed,
    LossWeights,
    Share,
    Told,
    decided,
)
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.opaque import OpaqueMean
from tests.support.ranks import on_ranks

BATCH = 12
DATA = torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(2))
TRAINED = nn.Parameter(torch.randn(5, 3, generator=torch.Generator().manual_seed(3)))
Y = torch.tensor([0, 1, 2, 0, 1, 2, -100, -100, 0, -100, 1, -100])
Loss = Callable[[Tensor, Tensor], Tensor]


def scores(start: int = 0, stop: int = BATCH) -> Tensor:
    return DATA[start:stop] @ TRAINED


def weights(given: Kind = Kind.UNKNOWN) -> tuple[LossWeights, list[str]]:
    said: list[str] = []
    return LossWeights(said.append, given), said


def plan(samples: int, copies: int = 1, merged: int = 1, last: bool = True) -> PartPlan:
    return PartPlan(samples, BATCH, copies, merged, parts=2, visible=last, last=last)


def shares(mine: LossWeights, loss: Loss, sizes: Sequence[int], merged: int = 1) -> list[Share]:
    """Return the shares of each part of a batch that one replica takes in several passes."""
    found, at = [], 0
    for number, size in enumerate(sizes):
        mine.begin_part()
        value = loss(scores(at, at + size), Y[at : at + size])
        found.append(mine.of([value], plan(size, merged=merged, last=number == len(sizes) - 1), 0, None))
        at += size
    return found


@pytest.mark.parametrize(
    ("given", "loss", "roots"),
    [
        (Kind.UNKNOWN, lambda x, y: x.mean(), [4 / 12, 8 / 12]),
        (Kind.UNKNOWN, lambda x, y: x.sum(), [1, 1]),
        (Kind.MEAN, lambda x, y: x.logsumexp(0).sum(), [4 / 12, 8 / 12]),  # the script's word counts
        (Kind.SUM, lambda x, y: x.mean(), [1, 1]),
    ],
)
def test_a_part_weighs_as_its_samples_in_a_mean_and_wholly_in_a_sum(
    given: Kind, loss: Loss, roots: list[float]
) -> None:
    mine, _ = weights(given)
    found = shares(mine, loss, [4, 8])
    assert [share.root for share in found] == pytest.approx(roots)
    assert sum(share.weight for share in found) == pytest.approx(1.0)
    assert mine.stale == 0.0


def test_a_counted_mean_weighs_by_what_was_counted() -> None:
    mine, _ = weights()
    found = shares(mine, F.cross_entropy, [4, 8])  # 4 and 4 targets that are no padding
    assert found[0].root == pytest.approx(found[1].root)
    whole = sum(float(share.weight) for share in found)
    assert [float(share.root) / whole for share in found] == pytest.approx([0.5, 0.5])


def test_merged_steps_weigh_their_part_of_the_step_and_copies_are_alike() -> None:
    """What copies of a whole batch bring is a mean in the end; a script that looks at its loss sees all of it."""
    mine, _ = weights()
    assert [share.root for share in shares(mine, lambda x, y: x.mean(), [4, 8], merged=4)] == [1 / 12, 2 / 12]
    mine.begin_part()
    whole = mine.of([scores().mean()], PartPlan(BATCH, BATCH, copies=3), 0, None)
    assert (whole.root, whole.weight) == (1, 1)


def test_a_weight_that_the_script_gives_holds_for_one_part() -> None:
    mine, _ = weights()
    found = []
    for size, counted in ((4, 1.0), (8, 9.0)):
        mine.begin_part()
        mine.weigh(counted)
        found.append(mine.of([scores(0, size).logsumexp(0).sum()], plan(size), 0, None))
    whole = sum(share.weight for share in found)
    assert [share.root / whole for share in found] == pytest.approx([0.1, 0.9])


def test_terms_of_several_kinds_have_shares_of_their_own() -> None:
    mine, _ = weights()
    mine.begin_part()
    share = mine.of([scores(0, 4).mean() + scores(0, 4).square().sum()], plan(4), 0, None)
    assert [factor for _, factor in share.terms] == pytest.approx([4 / 12, 1.0])


def test_a_loss_that_became_another_kind_is_noticed_in_its_step() -> None:
    mine, _ = weights()
    shares(mine, lambda x, y: x.mean(), [4, 8])
    mine.begin_part()
    mine.of([scores(0, 4).sum()], plan(4), 0, None)
    assert mine.stale == 1.0
    mine.disagreed(0)
    assert [share.root for share in shares(mine, lambda x, y: x.sum(), [4, 8])] == [1, 1]


def test_a_loss_over_whole_batches_is_given_nothing_else() -> None:
    mine, _ = weights(Kind.BATCH)
    assert mine.undivided
    with pytest.raises(Again):
        mine.of([scores(0, 4).mean()], plan(4), 0, None)
    assert mine.of([scores().mean()], PartPlan(BATCH, BATCH, copies=2), 0, None).root == 1


def test_samples_that_meet_are_computed_in_whole_batches_from_the_first_step_on_and_that_is_said_once() -> None:
    mine, said = weights()
    for _ in range(2):
        with pytest.raises(Again):
            mine.of([(scores(0, 4) @ scores(0, 4).T).mean()], plan(4), 0, None)
    assert mine.whole
    assert said == [WHOLE_BATCHES]


def test_what_the_graph_does_not_tell_a_batch_done_twice_does() -> None:
    """First in parts, then whole; after that it is known."""
    mine, said = weights()

    def tried(loss: Loss) -> bool:
        try:
            shares(mine, loss, [4, 8])
        except Again:
            assert mine.trial
            mine.of([loss(scores(), Y)], PartPlan(BATCH, BATCH), 0, None)
            return True
        return False

    opaque = lambda x, y: OpaqueMean.apply(x)  # noqa: E731
    assert tried(opaque)
    assert not tried(opaque)
    assert [share.root for share in shares(mine, opaque, [4, 8])] == pytest.approx([4 / 12, 8 / 12])
    assert said == []


def test_what_is_no_sum_of_reductions_is_computed_in_whole_batches() -> None:
    mine, said = weights()
    with pytest.raises(Again):
        mine.of([scores(0, 4).square().mean().sqrt()], plan(4), 0, None)
    assert mine.whole
    assert said == [WHOLE_BATCHES]


def told(kinds: Sequence[Kind] | None, counts: Sequence[float | None] = (), sure: bool = True) -> Told:
    seen = None if kinds is None else tuple(kinds)
    return Told(seen, tuple(counts or [None] * len(kinds or ())), sure, False, 4, {})


@pytest.mark.parametrize(
    ("everyone", "kind"),
    [
        ([told([Kind.MEAN]), told([Kind.MEAN])], Kind.MEAN),
        ([told([Kind.MEAN]), told([Kind.WEIGHTED], [3.0])], Kind.WEIGHTED),  # nothing was left out of one part
        ([told([Kind.SUM], [6.0]), told([Kind.SUM], [6.0])], Kind.SUM),
        ([told([Kind.SUM], [6.0], False), told([Kind.SUM], [5.0], False)], Kind.WEIGHTED),  # divided by counts
        ([told([Kind.SUM], [6.0], False), told([Kind.SUM], [6.0], False)], None),  # a constant, or counts alike
        ([told([Kind.MEAN], [4.0]), told([Kind.SUM], [5.0], False)], Kind.WEIGHTED),  # a count of all its samples
        ([told([Kind.MEAN, Kind.SUM]), told([Kind.MEAN, Kind.SUM])], Kind.MIXED),
        ([told(None), told([Kind.MEAN])], None),
    ],
)
def test_replicas_that_see_parts_of_a_batch_decide_together(everyone: list[Told], kind: Kind | None) -> None:
    found = decided(everyone, None)
    assert (found and found.kind) == kind


def test_what_was_once_counted_stays_counted() -> None:
    before = Agreed(Kind.WEIGHTED, (Kind.WEIGHTED,), (None,))
    found = decided([told([Kind.MEAN]), told([Kind.MEAN])], before)
    assert found is not None
    assert found.kind is Kind.WEIGHTED


def test_replicas_that_see_different_kinds_agree_on_one() -> None:
    """Only one of them has padding in its part."""

    def act(group: Group) -> tuple[Kind, float]:
        mine, _ = weights()
        start = 6 * group.rank
        seen = F.cross_entropy(scores(start, start + 6), Y[start : start + 6])
        share = mine.of([seen], plan(6), 0, group)
        return mine.kinds[0], float(share.root)

    (first, a), (second, b) = on_ranks(2, act)
    assert first is second is Kind.WEIGHTED
    assert a / b == pytest.approx(6 / 2)  # targets that count in each part


def test_newcomers_are_told_what_the_others_know() -> None:
    def act(group: Group) -> tuple[list[Kind], float]:
        mine, _ = weights()
        if group.rank == 0:  # it has been training alone, in passes
            shares(mine, F.cross_entropy, [4, 8])
        mine.regrouped()
        share = mine.of([F.cross_entropy(scores(0, 6), Y[:6])], plan(6), 0, group)
        return mine.kinds, float(share.root)

    first, second = on_ranks(2, act)
    assert first == second
    assert first[0] == [Kind.WEIGHTED]


@pytest.mark.parametrize(
    ("loss", "doubt"),
    [
        (lambda x, y: x.square().mean() / 3, True),  # three pieces of four samples
        (lambda x, y: F.cross_entropy(x, y) / 3 + 0.1 * TRAINED.square().sum(), True),
        (lambda x, y: x.square().mean() / 2, True),
        (lambda x, y: x.square().mean() / 4, False),  # pieces of three would have been seen
        (lambda x, y: x.square().mean(), False),
        (lambda x, y: 0.3 * x.square().mean(), False),
        (lambda x, y: x.square().mean() + 0.5 * x.abs().mean(), False),
    ],
)
def test_a_part_that_may_be_one_piece_of_its_batch_asks_for_the_whole(loss: Loss, doubt: bool) -> None:
    mine, _ = weights()
    shares(mine, loss, [4, 8])
    assert mine.take_doubt() is doubt
    assert not mine.take_doubt()  # it is told once


def test_nobody_asks_for_the_whole_once_a_batch_was_trained_on() -> None:
    def act(group: Group) -> bool:
        mine, _ = weights()
        mine.new = group.rank > 0  # a newcomer's word does not count
        mine.of([F.cross_entropy(scores(0, 6), Y[:6]) / 2], plan(6), 0, group)
        return mine.take_doubt()

    assert on_ranks(2, act) == [False, False]
