"""After a batch of several passes a script's variables are as after one, whatever they are made of."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from coadapt.executor.training.variables import script_frames, whole_values
from coadapt.executor.training.variables.own_variables import OwnVariables
from coadapt.executor.training.variables.script_sums import Given
from torch import Tensor, nn


@pytest.fixture(autouse=True)
def the_tests_are_no_modules_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_frames, "_own_modules", lambda: [])


def batches_in_passes(
    batches: Tensor, passes: int, models: Sequence[nn.Module] = ()
) -> Iterator[tuple[Tensor, bool]]:
    """Yield each pass's part of a batch, and whether it is the last one. A batch in one pass has only that."""
    mine = OwnVariables(models)
    mine.begin()
    mine.begin_pass(0, 1)
    for batch in batches:
        mine.begin_batch(may_repeat=False, several=passes > 1)
        for number, part in enumerate(batch.chunk(passes)):
            last = number == passes - 1
            mine.begin_part(last, is_copy=False)
            yield part, last
            mine.end_part(Given(len(part), len(batch)), last)


BATCHES = torch.arange(18.0).reshape(3, 6).square() + 0.3
MEANS = BATCHES.mean(1).tolist()


# --- single numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_a_best_value_that_begins_as_infinity_is_what_the_last_pass_has_found(passes: int) -> None:
    lowest, highest, found = math.inf, -math.inf, iter([0.9, 0.5, 0.7])
    for _, last in batches_in_passes(BATCHES, passes):
        if last:  # as by a validation after the step
            value = next(found)
            lowest, highest = min(lowest, value), max(highest, value)
    assert (lowest, highest) == (0.5, 0.9)


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_a_sum_that_begins_as_a_whole_number_may_become_a_tensor(passes: int) -> None:
    of_zero, of_fraction, of_numpy = 0, 0.0, 0
    for part, _ in batches_in_passes(BATCHES, passes):
        of_zero += part.mean()
        of_fraction += part.mean().detach()
        of_numpy += part.mean().numpy()
    assert isinstance(of_zero, Tensor)
    assert isinstance(of_numpy, np.generic)
    assert [float(of_zero), float(of_fraction), float(of_numpy)] == pytest.approx([sum(MEANS)] * 3)


def test_a_pass_that_adds_nothing_to_a_tensor_of_one_number_counts_in_its_mean() -> None:
    total = torch.tensor(0.0)
    for part, last in batches_in_passes(torch.ones(3, 6), 2):
        total += part.mean() if last else 0.0
        total.add_(0.0)
    assert float(total) == 3.0  # moved by the last passes alone
    for number, (part, _) in enumerate(batches_in_passes(torch.ones(3, 6), 2)):
        total += part.mean() * (number in (0, 2, 3))
    assert float(total) == 3.0 + 0.5 + 1.0


@pytest.mark.parametrize("kind", [float, torch.tensor])
@pytest.mark.parametrize("passes", [1, 2, 3])
def test_an_average_that_is_none_at_first_begins_as_the_mean_of_all_passes(passes: int, kind: Any) -> None:
    smooth, first, best, found = None, None, None, iter([0.9, 0.5, 0.7])
    for part, last in batches_in_passes(BATCHES, passes):
        loss = kind(part.mean().item())
        smooth = loss if smooth is None else 0.5 * smooth + 0.5 * loss
        first = loss if first is None else first
        if last:  # as by a validation after the step
            value = next(found)
            best = value if best is None or value < best else best
    expected = 0.25 * MEANS[0] + 0.25 * MEANS[1] + 0.5 * MEANS[2]
    assert [float(smooth), float(first), best] == pytest.approx([expected, MEANS[0], 0.5])


# --- what mappings get under new keys -----------------------------------------------------------------------


class Smoothed:
    """A meter by batches: the last values, their sum and number, the lowest, and a running one."""

    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=2)
        self.total, self.count, self.lowest = 0.0, 0, math.inf
        self.running: float | None = None

    def update(self, value: float) -> None:
        self.recent.append(value)
        self.count += 1
        self.total += value
        self.lowest = min(self.lowest, value)
        self.running = value if self.running is None else 0.9 * self.running + 0.1 * value


class Averaged:
    """A meter by samples."""

    def __init__(self) -> None:
        self.sum, self.count, self.batches, self.mean = 0.0, 0, 0, 0.0

    def update(self, value: float, samples: int) -> None:
        self.sum += value * samples
        self.count += samples
        self.batches += 1
        self.mean = self.sum / self.count


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_meters_under_new_keys_count_their_first_batch_once(passes: int) -> None:
    meters: dict[str, Smoothed] = defaultdict(Smoothed)
    nested: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    queues: dict[str, deque[float]] = defaultdict(deque)
    for part, _ in batches_in_passes(BATCHES, passes):
        mean = part.mean().item()
        meters["loss"].update(mean)
        nested["train"]["loss"] += mean
        queues["loss"].append(mean)
    first, *others = MEANS
    running = first
    for mean in others:
        running = 0.9 * running + 0.1 * mean
    meter = meters["loss"]
    assert list(meter.recent) == pytest.approx(MEANS[1:])
    assert (meter.total, meter.count) == (pytest.approx(sum(MEANS)), 3)
    assert (meter.lowest, meter.running) == (pytest.approx(first), pytest.approx(running))
    assert nested == {"train": {"loss": pytest.approx(sum(MEANS))}}
    assert list(queues["loss"]) == pytest.approx(MEANS)


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_tensors_under_new_keys_began_as_nothing(passes: int) -> None:
    sums: dict[str, float | Tensor] = defaultdict(float)
    for part, _ in batches_in_passes(BATCHES, passes):
        sums["loss"] += part.mean()
    assert float(sums["loss"]) == pytest.approx(sum(MEANS))


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_meters_of_samples_under_new_keys_add_up_all_passes(passes: int) -> None:
    meters: dict[str, Averaged] = defaultdict(Averaged)
    kept: dict[str, list[float]] = defaultdict(list)
    for part, _ in batches_in_passes(BATCHES, passes):
        meters["loss"].update(part.mean().item(), len(part))
        kept["all"] += part.tolist()
    meter = meters["loss"]
    assert (meter.sum, meter.count) == (pytest.approx(float(BATCHES.sum())), 18)
    assert meter.mean == pytest.approx(float(BATCHES.mean()))
    assert sorted(kept["all"]) == sorted(BATCHES.flatten().tolist())


@pytest.mark.parametrize("passes", [1, 3])
def test_tables_of_counts_under_new_keys_have_those_of_all_passes(passes: int) -> None:
    table: dict[int, Counter[str]] = defaultdict(Counter)
    for part, _ in batches_in_passes(torch.arange(6)[None], passes):
        for number in part.tolist():
            table[number % 2]["found"] += 1
    assert table == {0: {"found": 3}, 1: {"found": 3}}


def test_a_short_vector_with_as_many_elements_as_a_model_is_no_copy_of_it() -> None:
    sums = torch.zeros(3)
    for part, _ in batches_in_passes(BATCHES, 2, [nn.Linear(2, 1)]):
        sums += part
    assert sums.tolist() == pytest.approx(BATCHES.reshape(3, 2, 3).mean(1).sum(0).tolist())


def test_an_object_that_was_there_before_stays_under_its_new_key() -> None:
    meter = Smoothed()
    meter.update(1.0)
    meters: dict[str, Smoothed] = {}
    for part, _ in batches_in_passes(BATCHES, 2):
        meters.setdefault("loss", meter).update(part.mean().item())
    assert meters["loss"] is meter
    assert (meter.count, meter.total) == (4, pytest.approx(1.0 + sum(MEANS)))


# --- what is kept for each parameter ------------------------------------------------------------------------


def deep(layers: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))


class Average:
    """Of a model's weights, kept in a list, a tuple, a vector and a dictionary."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.listed = [torch.zeros_like(parameter) for parameter in parameters]
        self.fixed = tuple(torch.zeros_like(parameter) for parameter in parameters)
        self.flat = torch.zeros(sum(parameter.numel() for parameter in parameters))

    @torch.no_grad()
    def update(self, parameters: Sequence[nn.Parameter]) -> None:
        for kept in (self.listed, self.fixed):
            for average, parameter in zip(kept, parameters, strict=True):
                average.lerp_(parameter, 0.25)
        self.flat = 0.75 * self.flat + 0.25 * torch.cat([parameter.flatten() for parameter in parameters])


@pytest.mark.parametrize("layers", [2, 40])
def test_averages_of_weights_follow_the_step_however_they_are_kept(layers: int) -> None:
    model = deep(layers)
    weights = list(model.parameters())
    average, seen = Average(weights), torch.zeros(2)
    for parameter in weights:
        nn.init.constant_(parameter, 1.0)
    expected, value = 0.0, 1.0
    for part, last in batches_in_passes(BATCHES, 2, [model]):
        if last:
            with torch.no_grad():
                for parameter in weights:
                    parameter.mul_(2)
            value *= 2
            expected += 0.25 * (value - expected)
        average.update(weights)
        latest = average.listed[-1]  # as a loop over them leaves it behind
        seen += part[:2]
    kept = [*average.listed, latest, *average.fixed, average.flat]
    assert {float(one) for tensor in kept for one in tensor.flatten()} == {expected}
    assert seen.tolist() == pytest.approx(((BATCHES[:, :2] + BATCHES[:, 3:5]) / 2).sum(0).tolist())


# --- what is reckoned from norms of gradients ---------------------------------------------------------------

NORMS = [5.25, 1.25, 2.25, 3.5, 2.75, 6.5]  # of both passes of each batch; the last pass has the gradient of all


@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_what_is_reckoned_from_norms_follows_the_last_pass(kind: Callable[[float], Any]) -> None:
    norm_of = whole_values._noting(lambda value: torch.tensor(value))
    smooth, total, mean, running = kind(1.0), kind(0.0), 0.0, 0.0
    smooth_norms = []
    parts = batches_in_passes(BATCHES, 2)
    for number, ((part, _), norm) in enumerate(zip(parts, NORMS, strict=True)):
        norm = norm_of(norm)
        norm = norm if kind is torch.tensor else norm.item()
        smooth = 0.9 * smooth + 0.1 * norm
        smooth_norms.append(float(smooth))
        total = total + norm
        mean = mean + (float(norm) - mean) / (1 + number // 2)
        running = 0.5 * running + 0.5 * part.mean().item()
    expected = [1.0]
    for norm in NORMS[1::2]:
        expected.append(0.9 * expected[-1] + 0.1 * norm)
    assert float(smooth) == pytest.approx(expected[-1])
    assert smooth_norms == pytest.approx(expected[1:])
    assert (float(total), mean) == (pytest.approx(11.25), pytest.approx(3.75))
    assert running == pytest.approx(sum(mean * 0.5 ** (3 - i) for i, mean in enumerate(MEANS)))


def test_a_smoothed_norm_that_leaves_large_ones_out_goes_by_the_last_pass_alone() -> None:
    norm_of = whole_values._noting(lambda value: torch.tensor(value))
    smooth, skipped = 2.0, 0
    norms = [3.25, 2.5, 9.25, 2.75, 2.125, 9.25]  # a first pass, and then a last one, seems too large
    for _, norm in zip(batches_in_passes(BATCHES, 2), norms, strict=True):
        value = norm_of(norm).item()
        if value > 2 * smooth:
            skipped += 1
        else:
            smooth = 0.5 * smooth + 0.5 * value
    assert (smooth, skipped) == (2.5, 1)


def test_what_once_went_otherwise_than_norms_is_a_mean_over_passes() -> None:
    norm_of = whole_values._noting(lambda value: torch.tensor(value))
    smooth = 1.0
    for number, (_, norm) in enumerate(zip(batches_in_passes(BATCHES, 2), NORMS, strict=True)):
        value = norm_of(norm).item()
        smooth += value if number > 1 else value**2
    assert smooth == 1.0 + (5.25**2 + 1.25**2) / 2 + (2.25 + 3.5) / 2 + (2.75 + 6.5) / 2


# --- rows of each batch -------------------------------------------------------------------------------------


class Row(NamedTuple):
    loss: float
    n: int


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_rows_of_a_batch_have_means_and_counts_of_all_its_passes(passes: int) -> None:
    rows: list[dict[str, Any]] = []
    pairs: list[tuple[float, int]] = []
    named: list[Row] = []
    nested: list[dict[str, Any]] = []
    done = Counter[str]()
    for part, _ in batches_in_passes(BATCHES, passes):
        done["steps"] += 1
        loss, large = part.mean().item(), int((part > 40).sum())
        rows.append({"step": done["steps"], "loss": loss, "n": len(part), "of_all": 6})
        pairs.append((loss, len(part)))
        named.append(Row(loss, len(part)))
        nested.append({"epoch": 0, "of": {"loss": part.mean(), "large": large}})
    expected = [{"step": i + 1, "loss": pytest.approx(m), "n": 6, "of_all": 6} for i, m in enumerate(MEANS)]
    assert rows == expected
    assert pairs == [(pytest.approx(mean), 6) for mean in MEANS]
    assert named == pairs
    assert isinstance(named[0], Row)
    larges = (BATCHES > 40).sum(1).tolist()
    assert [(row["epoch"], row["of"]["large"]) for row in nested] == [(0, count) for count in larges]
    assert [float(row["of"]["loss"]) for row in nested] == pytest.approx(MEANS)


def test_the_number_of_an_epoch_that_is_that_of_the_samples_is_no_count() -> None:
    rows: list[dict[str, int]] = []
    for number, _ in enumerate(batches_in_passes(torch.ones(5, 6), 2)):
        rows.append({"epoch": number // 2})
    assert rows == [{"epoch": epoch} for epoch in range(5)]


# --- metrics that are modules -------------------------------------------------------------------------------


class Accuracy(nn.Module):
    correct: Tensor
    centre: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("correct", torch.tensor(0))
        self.register_buffer("centre", torch.zeros(2))
        self.total = self.calls = 0
        self.losses: list[float] = []

    def update(self, part: Tensor) -> None:
        self.correct += (part > 40).sum()
        self.total += len(part)
        self.calls += 1
        self.losses.append(part.mean().item())
        self.centre = 0.5 * self.centre + 0.5 * torch.stack([part.mean(), part.mean() + 1])


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_metrics_that_are_modules_hold_what_all_passes_have_added(passes: int) -> None:
    alone, among = Accuracy(), nn.ModuleDict({"accuracy": Accuracy()})
    for part, _ in batches_in_passes(BATCHES, passes):
        alone.update(part)
        for metric in among.values():
            metric.update(part)
    centre = sum(mean * 0.5 ** (3 - i) for i, mean in enumerate(MEANS))
    for metric in (alone, among["accuracy"]):
        assert (int(metric.correct), metric.total, metric.calls) == (int((BATCHES > 40).sum()), 18, 3)
        assert metric.losses == pytest.approx(MEANS)
        assert metric.centre.tolist() == pytest.approx([centre, centre + 0.875])


def test_modules_that_are_trained_or_average_what_is_are_no_metrics() -> None:
    model, averages = deep(2), nn.Module()
    model.add_module("accuracy", Accuracy())
    for number, parameter in enumerate(model.parameters()):
        averages.register_buffer(str(number), parameter.detach().clone())
    averages.__class__ = Accuracy
    mine = OwnVariables([model])
    assert not any(map(script_frames.is_metric, (model, model.accuracy, averages, nn.CrossEntropyLoss(), mine)))
    assert script_frames.is_metric(Accuracy())
    assert script_frames.is_metric(nn.ModuleList([Accuracy()]))
