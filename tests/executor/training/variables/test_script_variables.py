"""A script's own variables end up as if one process had been there all the time, and got each batch once."""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
import math
import pickle
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from coadapt.executor.training.variables import script_frames, script_undo
from coadapt.executor.training.variables.own_variables import OwnVariables, _of_all, share_of
from coadapt.executor.training.variables.place_names import is_of_place
from coadapt.executor.training.variables.script_frames import (
    MODULE,
    MOST_ELEMENTS,
    MOST_ITEMS,
    NUMBERS,
    put,
    reach,
)
from coadapt.executor.training.variables.script_sums import (
    ATTRIBUTES,
    Given,
    Known,
    as_alone,
    grows_by_samples,
    is_of_batches,
    shared,
    variables_alone,
)
from coadapt.executor.training.variables.script_undo import Undo
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import ConcatDataset, Dataset, TensorDataset

BESIDE = "beside_the_script"


class Meter:
    """As they are in most repositories."""

    def __init__(self) -> None:
        self.value = self.sum = self.mean = 0.0
        self.count = 0

    def update(self, value: float, samples: int) -> None:
        self.value = value
        self.sum += value * samples
        self.count += samples
        self.mean = self.sum / self.count


class Trainer:
    def __init__(self) -> None:
        self.meters = {"loss": Meter()}
        self.left = 10


# --- what is found ------------------------------------------------------------------------------------------


def names_of(found: dict[str, Any]) -> set[str]:
    """Return what is found of the calling function, by the path within it."""
    return {path.split("/", 2)[2] for path in found if "/test_" in path and "<locals>" not in path}


def test_variables_of_the_loop_are_found_and_what_they_hold() -> None:
    steps, rate, name = 3, 0.5, "text"
    history, window, by_class = [0.1], deque([1.0]), {"cat": 2}
    trainer = Trainer()
    found = reach(NUMBERS)
    assert {"steps", "rate", "history/0", "by_class/cat", "trainer/left"} <= names_of(found.leaves)
    assert "trainer/meters/loss/sum" in names_of(found.leaves)
    assert {"history", "window"} <= names_of(found.lists)
    assert "name" not in names_of(found.leaves)
    assert (steps, rate, name, len(history), len(window), len(by_class), trainer.left) == (
        3,
        0.5,
        "text",
        1,
        1,
        1,
        10,
    )


def test_models_large_tensors_and_endless_holders_are_passed_by() -> None:
    model, small, large = nn.Linear(2, 2), torch.zeros(3), torch.zeros(100)
    many = list(range(1000))
    ring: dict[str, Any] = {"inside": 1}
    ring["again"] = ring
    found = names_of(reach((int, torch.Tensor), elements=50).leaves)
    assert {"small", "ring/inside"} <= found
    assert not [path for path in found if path.split("/")[0] in ("model", "large", "many")]
    assert (model.in_features, len(small), len(large), len(many), len(ring)) == (2, 3, 100, 1000, 2)


def test_variables_of_a_running_function_can_be_set() -> None:
    steps, table = 3, {"a": 1.0}
    leaves = reach(NUMBERS).leaves
    place = next(path for path in leaves if path.endswith("/steps")).removesuffix("steps")
    put({f"{place}steps": 7, f"{place}table/a": 2.5}, leaves)
    assert steps == 7
    assert table == {"a": 2.5}


@pytest.fixture(autouse=True)
def the_tests_are_no_modules_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    own = script_frames._own_modules
    monkeypatch.setattr(script_frames, "_own_modules", lambda: [one for one in own() if one[0] == BESIDE])


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Make a module of the script's own, beside it."""
    (tmp_path / f"{BESIDE}.py").write_text(
        "import os\nsteps = 0\nseen = 0\nhistory = []\nrank = 0\n"
        "def note(n):\n    global steps, seen\n    steps += 1\n    seen += n\n    history.append(steps)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module(BESIDE)
    del sys.modules[BESIDE]


def test_variables_of_modules_beside_the_script_are_its_own(beside: Any) -> None:
    found = {path for path in reach(NUMBERS).leaves if path.startswith("beside_the_script/")}
    assert found == {f"beside_the_script/<module>/{name}" for name in ("steps", "seen", "rank")}
    leaves = reach(NUMBERS).leaves
    put({"beside_the_script/<module>/steps": 7}, leaves)
    assert beside.steps == 7


def test_a_newcomer_and_further_passes_find_modules_as_one_process_has_them(beside: Any) -> None:
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for _ in range(3):
        mine.begin_batch(may_repeat=False, several=True)
        for number in range(2):
            mine.begin_part(number == 1, is_copy=False)
            beside.note(4)
            mine.end_part(Given(4, 8), number == 1)
    assert (beside.steps, beside.seen, beside.history) == (3, 24, [1, 2, 3])
    state = mine.state(in_pass=True, pass_samples=24)
    beside.steps, beside.seen, beside.history = 0, 0, []
    newcomer = OwnVariables()
    newcomer.begin()
    newcomer.load(state)
    newcomer.begin_pass(1, 2)
    newcomer.arrive(1, 2)
    assert (beside.steps, beside.seen, beside.history, beside.rank) == (3, 12, [1, 2, 3], 0)


def test_sets_of_the_scripts_objects_stay_where_they_are() -> None:
    trainer, names = Trainer(), {"a"}
    left = {trainer, *names}
    kept = {trainer: 1, (1, "b"): 2}
    by_place = {(1, "b"): 2}
    mine = OwnVariables()
    mine.begin()
    names.add("b")
    left.add("c")
    kept[1, "c"] = by_place[1, "c"] = 3
    told = {name for frame in mine.state(in_pass=False, pass_samples=0)["now"] for name in frame["variables"]}
    assert {"names", "by_place"} <= told
    assert not {"left", "kept"} & told


def test_modules_that_some_replicas_lack_are_left_out() -> None:
    module, frame = ({"file": "m", "function": MODULE, "variables": {}}, {"file": "f", "function": "main"})
    assert _of_all([[frame, module], [frame]]) == [[frame], [frame]]
    assert _of_all([[frame, module], [frame, module]]) == [[frame, module]] * 2


# --- what means are over ------------------------------------------------------------------------------------


def test_a_mean_is_over_the_count_that_its_sum_is_divided_by() -> None:
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    total, tokens, rows = 0.0, 0, 0
    for n in (3, 4, 5):
        mine.begin_batch(may_repeat=False, several=False)
        mine.begin_part(last=True, is_copy=False)
        total, tokens, rows = total + 1.5 * n, tokens + 7 * n, rows + n
        mine.end_part(Given(n, n, lambda _, n=n: [1.5 * n]), True)
    assert mine.mean_over(total / tokens) == tokens == 84
    assert mine.mean_over(100 * total / rows) == rows == 12
    assert mine.mean_over(0.123) is None
    assert mine.mean_over(total / 5, size=5) == 5, "the length of the data set, which is no variable"
    assert mine.mean_over(total / 5) is None


def test_a_part_of_a_mean_over_all_samples_may_be_taken_off_one_or_a_hundred() -> None:
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    correct = 0
    for n in (3, 4, 5):
        mine.begin_batch(may_repeat=False, several=False)
        mine.begin_part(last=True, is_copy=False)
        correct += n
        mine.end_part(Given(8, 16), True)
    shares = (
        correct / 48,
        100.0 * correct / 48,
        1 - correct / 48,
        100 - 100.0 * correct / 48,
        0.3,
        1 - 100 * correct,
    )
    assert [mine.part_of(share, 48, 24) for share in shares] == [0.0, 0.0, 1.0, 100.0, None, None]
    # A count that the script has combined itself is that of all replicas.
    assert [mine.part_of(share, 48, 24, {correct}) for share in shares] == [None] * 6


def test_a_mean_of_entries_of_some_samples_is_over_these() -> None:
    losses: list[float] = []
    of_batches: list[float] = []
    rows: list[dict[str, float]] = []
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for n in (3, 4, 5):
        mine.begin_batch(may_repeat=False, several=False)
        mine.begin_part(last=True, is_copy=False)
        losses += [float(n * i) for i in range(n)]
        of_batches.append(float(n))
        rows.append({"n": n, "loss": 10.0 * n})
        mine.end_part(Given(8, 8), True)
    assert mine.mean_over(sum(losses) / 12) == 12
    assert mine.mean_over(4.0) is None
    assert mine.is_mean_of_batches(4.0, 3)
    assert mine.is_mean_of_batches(40.0, 3)


# --- passes -------------------------------------------------------------------------------------------------


@functools.cache
def trained(passes: int) -> dict[str, Any]:
    """Return what a script has in its variables after four batches of six, each in so many passes."""
    data = torch.arange(24.0).reshape(4, 6).square() + 1
    steps = seen = large = constant = tokens = tokens_at_once = 0
    total = of_batches = running = mean = 0.0
    losses: list[float] = []
    every: list[float] = []
    arrays: list[torch.Tensor] = []
    recent: deque[float] = deque(maxlen=3)
    by_size: Counter[str] = Counter()
    counts = torch.zeros(2, dtype=torch.int64)
    trainer, flag, note = Trainer(), False, ""
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for batch in data:
        mine.begin_batch(may_repeat=False, several=passes > 1)
        for number, part in enumerate(batch.chunk(passes)):
            last, n = number == passes - 1, len(part)
            mine.begin_part(last, is_copy=False)
            loss = float(part.mean())
            steps += 1
            seen += n
            constant += len(batch)
            tokens += 7 * n
            tokens_at_once += 7 * len(batch)
            total += loss * n
            of_batches += loss
            running = 0.9 * running + 0.1 * loss
            losses.append(loss)
            every += part.tolist()
            arrays.append(part)
            recent.append(loss)
            large += int((part != 10).sum())
            by_size["large"] += int((part != 10).sum())
            counts += torch.stack([(part != 10).sum(), (part == 10).sum()])
            mean += (loss - mean) / steps
            trainer.meters["loss"].update(loss, n)
            trainer.left -= 1
            flag, note = not flag, f"step {steps}"
            sizes = {n, 7 * n}  # as of labels and tokens
            mine.end_part(Given(n, len(batch), lambda _, added=loss * n: [added], lambda sizes=sizes: sizes), last)
    return {
        "constant": constant, "tokens": tokens, "tokens at once": tokens_at_once,
        "steps": steps, "seen": seen, "large": large, "total": total, "of_batches": of_batches, "running": running,
        "losses": losses, "every": sorted(every), "arrays": sorted(torch.cat(arrays).tolist()),
        "recent": list(recent), "by_size": by_size["large"], "counts": counts.tolist(), "mean": mean,
        "left": trainer.left, "sum": trainer.meters["loss"].sum, "count": trainer.meters["loss"].count,
        "average": trainer.meters["loss"].mean, "flag": flag, "note": note,
    }  # fmt: skip


@pytest.mark.parametrize("passes", [2, 3])
@pytest.mark.parametrize("name", trained(1))
def test_after_batches_of_several_passes_variables_are_as_after_single_ones(name: str, passes: int) -> None:
    found, alone = trained(passes)[name], trained(1)[name]
    assert found == (alone if isinstance(alone, str) else pytest.approx(alone, rel=1e-6))


@pytest.mark.parametrize("passes", [1, 2])
def test_what_mappings_get_under_new_keys_is_as_after_one_pass(passes: int) -> None:
    log: dict[str, list[float]] = defaultdict(list)
    sums: dict[str, float] = {}
    first: dict[str, float] = {}
    hits: Counter[str] = Counter()
    values = torch.arange(12.0).reshape(2, 6) + 0.3
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for batch in values:
        mine.begin_batch(may_repeat=False, several=passes > 1)
        for number, part in enumerate(batch.chunk(passes)):
            mine.begin_part(number == passes - 1, is_copy=False)
            mean = part.mean().item()
            log["loss"].append(mean)
            sums["loss"] = sums.get("loss", 0.0) + mean
            first.setdefault("loss", 1.0 + mean)
            hits["even"] += len(part)
            mine.end_part(Given(len(part), 6), number == passes - 1)
    means = values.mean(1).tolist()
    assert log == {"loss": pytest.approx(means)}
    assert (sums["loss"], first["loss"]) == (pytest.approx(sum(means)), pytest.approx(1.0 + means[0]))
    assert hits == {"even": 12}


def test_a_count_of_items_that_is_one_of_batches_by_chance_stays_one_of_items() -> None:
    tokens = constant = 0
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 2)
    for found in (8, 7, 8, 9, 8):
        mine.begin_batch(may_repeat=False, several=False)
        mine.begin_part(last=True, is_copy=False)
        tokens, constant = tokens + found, constant + 8
        mine.end_part(Given(4, 8), True)
    known = mine.state(in_pass=True, pass_samples=0)["known"]
    assert any(path.endswith("/tokens") for path in known["over_samples"])
    assert any(path.endswith("/constant") for path in known["others"])
    assert (tokens, constant) == (40, 40)


def counts(begun: int, passes: int, batches: int) -> tuple[dict[str, int], set[str], set[str]]:
    """Return what is counted after so many whole batches of eight, and some in parts of four."""
    updates, hits, chosen, constant = 0, 0, 0, 0
    correct = itertools.cycle([3, 2, 3, 3, 4, 3, 1])
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for batch in range(begun + batches):
        parts = passes if batch >= begun else 1
        mine.begin_batch(may_repeat=False, several=parts > 1)
        for number in range(parts):
            mine.begin_part(number == parts - 1, is_copy=False)
            n = 8 // parts
            updates += 2
            hits += sum(itertools.islice(correct, 2 // parts))
            chosen += 3 * n // 4  # as of a sampler that chooses as many of each class
            constant += 8
            mine.end_part(Given(n, 8, lambda _, n=n: [3.0 * n / 4]), number == parts - 1)
    known = mine.state(in_pass=True, pass_samples=0)["known"]
    found = {"updates": updates, "hits": hits, "chosen": chosen, "constant": constant}
    return found, *({path.split("/")[-1] for path in known[one]} for one in ("over_samples", "others"))


@pytest.mark.parametrize("begun", [0, 6, 20])
def test_a_count_of_updates_by_a_constant_is_none_over_samples(begun: int) -> None:
    found, over, others = counts(begun, 2, 12)
    assert found == counts(begun, 1, 12)[0]
    assert (over >= {"hits", "chosen"}, others >= {"updates", "constant"}) == (True, True)


def test_the_value_of_a_counter_is_no_sum_over_samples() -> None:
    steps = last_log = hits = 0
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for found in (0, 2, 1, 4, 3, 1, 2, 3):  # after two batches there are two hits by chance
        mine.begin_batch(may_repeat=False, several=False)
        mine.begin_part(last=True, is_copy=False)
        steps += 1  # noqa: SIM113 (a counter as scripts have it)
        hits += found
        if steps - last_log >= 4:
            last_log = steps
        mine.end_part(Given(8, 8), True)
    over = {path.split("/")[-1] for path in mine.state(in_pass=True, pass_samples=0)["known"]["over_samples"]}
    assert (last_log, over & {"steps", "last_log", "hits"}) == (8, {"hits"})


def test_while_a_batch_is_not_over_its_count_equals_nothing() -> None:
    steps, logged = 0, []
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for _ in range(6):
        mine.begin_batch(may_repeat=False, several=True)
        for number in range(2):
            mine.begin_part(number == 1, is_copy=False)
            steps += 1
            if steps % 2 == 0:
                logged.append((int(steps), number))
            mine.end_part(Given(3, 3), number == 1)
    assert steps == 6
    assert logged[-2:] == [(4, 1), (6, 1)]


@pytest.mark.parametrize(("validates", "best"), [(True, 0.5), (False, 0.7)])
def test_what_a_validation_in_the_last_pass_sets_is_no_mean_over_passes(validates: bool, best: float) -> None:
    lowest, running = 1.0, 0.0
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for batch in range(2):
        mine.begin_batch(may_repeat=False, several=True)
        for number in range(2):
            mine.begin_part(number == 1, is_copy=False)
            running += 0.1 + 0.2 * number
            if batch == 0:
                lowest = min(lowest, 0.9)
            elif number == 1:
                lowest = min(lowest, 0.5)
            mine.end_part(Given(3, 3), number == 1, last_alone=validates and number == 1)
    assert (lowest, running) == (pytest.approx(best), pytest.approx(0.4))


@pytest.mark.parametrize("make", [torch.zeros, np.zeros])
def test_tensors_and_arrays_move_by_the_mean_of_the_passes_that_move_them(make: Callable) -> None:
    first, last, both, still = (make(2 * MOST_ELEMENTS) for _ in range(4))
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for _ in range(3):
        mine.begin_batch(may_repeat=False, several=True)
        for number in range(2):
            mine.begin_part(number == 1, is_copy=False)
            if number == 0:
                first += 1
            else:
                last += 1  # only the last pass makes a step
            both += 0.5 + number
            mine.end_part(Given(3, 3), number == 1)
    assert (float(first[-1]), float(last[-1]), float(both[-1]), float(still[-1])) == (3.0, 3.0, 3.0, 0.0)
    half = len(first) // 2
    mine.begin_batch(may_repeat=False, several=True)
    for number in range(2):
        mine.begin_part(number == 1, is_copy=False)
        first[:half] += 1 - number  # each pass writes its samples' rows
        first[half:] += number
        mine.end_part(Given(3, 3), number == 1)
    assert (float(first[0]), float(first[-1])) == (4.0, 4.0)


@pytest.mark.parametrize("make", [torch.tensor, np.array])
def test_infinity_and_nan_in_tensors_and_arrays_stay(make: Callable) -> None:
    still, lowest = make([math.inf, math.nan, -math.inf, 1.0]), make([math.inf, 5.0, math.nan, 3.0])
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for batch in range(2):
        mine.begin_batch(may_repeat=False, several=True)
        for number in range(2):
            mine.begin_part(number == 1, is_copy=False)
            lowest[0] = min(float(lowest[0]), 4.0 + batch)
            lowest[3] += 1.0 + number
            mine.end_part(Given(3, 3), number == 1)
    assert [float(value) for value in still] == pytest.approx([math.inf, math.nan, -math.inf, 1.0], nan_ok=True)
    assert [float(value) for value in lowest] == pytest.approx([4.0, 5.0, math.nan, 6.0], nan_ok=True)


def test_a_number_that_only_steps_move_moves_as_much_as_alone() -> None:
    temperature, mean = 1.0, 0.0
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for _ in range(3):
        mine.begin_batch(may_repeat=False, several=True)
        for number in range(2):
            mine.begin_part(number == 1, is_copy=False)
            mean += 0.25 + number
            if number == 1:
                temperature *= 0.5
            mine.end_part(Given(3, 3), number == 1)
    assert (temperature, mean) == (0.125, 3 * 0.75)


@pytest.mark.parametrize("make", [torch.zeros, np.zeros])
def test_data_in_memory_are_copied_once_not_for_every_batch(
    make: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make(2 * MOST_ELEMENTS)
    copy = Mock(side_effect=script_undo._kept)
    monkeypatch.setattr(script_undo, "_kept", copy)
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for _ in range(5):
        mine.begin_batch(may_repeat=False, several=True)
        for number in range(2):
            mine.begin_part(number == 1, is_copy=False)
            mine.end_part(Given(3, 3), number == 1)
    assert sum(call.args[0] is data for call in copy.call_args_list) == 1


def test_a_batch_that_has_to_be_done_again_leaves_nothing_behind() -> None:
    steps, best, history = 1, 0.5, [0.5]
    table, total, trainer = {"a": 1}, torch.ones(2), Trainer()
    window = deque([1.0, 2.0], maxlen=2)
    undo = Undo()
    steps, best = 2, 0.25
    history.append(0.25)
    table["a"] = 2
    total += 1
    window.append(3.0)
    trainer.meters["loss"].update(3.0, 4)
    trainer.left = 0
    undo.restore()
    assert (steps, best, history, table) == (1, 0.5, [0.5], {"a": 1})
    assert total.tolist() == [1.0, 1.0]
    assert list(window) == [1.0, 2.0]
    assert (trainer.left, trainer.meters["loss"].count, trainer.meters["loss"].sum) == (10, 0, 0.0)


def test_what_another_replica_computes_too_is_counted_there() -> None:
    seen, steps = 0, 0
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 2)
    for number in range(3):
        is_copy = number == 2
        mine.begin_batch(may_repeat=True, several=False)
        mine.begin_part(True, is_copy)
        seen += 4
        steps += 1
        mine.end_part(Given(4, 4), True)
    assert (seen, steps) == (8, 3)


class Written(TorchDispatchMode):
    """Counts the elements of tensors that operations make or fill."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.elements += made.numel() if isinstance(made, torch.Tensor) else 0
        return made


def test_a_data_set_in_a_variable_costs_batches_of_several_passes_nothing() -> None:
    data, total = torch.ones(100_000), 0.0
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    with Written() as written:
        for batch in range(4):
            if batch == 2:
                before = written.elements
            mine.begin_batch(may_repeat=False, several=True)
            for number in range(2):
                mine.begin_part(number == 1, is_copy=False)
                total += 1.0
                mine.end_part(Given(3, 3), number == 1)
    assert written.elements - before < 1000
    assert data.shape == (100_000,)


# --- replicas that come and go ------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5), st.integers(1, 5))
def test_counts_of_replicas_add_up_and_are_shared_without_loss(counts: list[int], replicas: int) -> None:
    known = Known(over_samples={"f/seen"})
    one = as_alone([{"seen": count} for count in counts], [1.0] * len(counts), known, path="f")
    assert one == {"seen": sum(counts)}
    parts = [shared(one, known, rank, replicas, "f")["seen"] for rank in range(replicas)]
    assert sum(parts) == sum(counts)
    assert max(parts) - min(parts) <= 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 4))
def test_arrays_of_entries_are_shared_as_the_entries_alone_would_be(sizes: list[int], replicas: int) -> None:
    known = Known(over_samples={"f/outs", "f/losses"})
    entries = np.arange(sum(sizes))
    one = {"outs": np.split(entries, np.cumsum(sizes)[:-1]), "losses": entries.tolist()}
    parts = [shared(one, known, rank, replicas, "f") for rank in range(replicas)]
    for rank, part in enumerate(parts):
        assert np.concatenate(part["outs"]).tolist() == part["losses"]
        assert len(part["losses"]) == share_of(sum(sizes), rank, replicas)
    assert sorted(loss for part in parts for loss in part["losses"]) == one["losses"]


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=5), st.data())
def test_means_of_replicas_weigh_by_their_samples_and_sums_add_up(
    values: list[float], data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.integers(1, 50), min_size=len(values), max_size=len(values)))
    known = Known(over_samples={"f/sum"})
    one = as_alone([{"sum": value, "mean": value} for value in values], weights, known, path="f")
    assert one["sum"] == pytest.approx(sum(values))
    mean = sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
    assert one["mean"] == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize(
    ("everyone", "one"),
    [
        ([3, 3], 3),  # counted alike by all
        ([3, 4], 7),  # so it is a count of what each has met
        ([True, False], True),
        (["a", "b"], "a"),
        ([[1.0, 2.0], [3.0, 4.0]], [2.0, 3.0]),
        ([[1.0], [1.0, 2.0]], [1.0, 1.0, 2.0]),  # of some samples
        ([[1.0], []], [1.0]),  # one replica alone keeps it
        ([[], [2.0]], [2.0]),
        ([torch.tensor([1, 0]), torch.tensor([0, 2])], torch.tensor([1, 2])),
        ([np.float32(1.0), np.float32(2.0)], np.float32(1.5)),
        ([Counter(a=1), Counter(b=2)], Counter(a=1, b=2)),
        ([None, 1.0], None),
    ],
)
def test_variables_of_two_replicas_become_those_of_one_process(everyone: Sequence[Any], one: Any) -> None:
    found = as_alone(everyone, [1.0, 1.0], Known(), path="f/x")
    assert type(found) is type(one)
    assert str(found) == str(one)


def together(size: int) -> SimpleNamespace:
    """Make a group of threads that tell each other more, out of reach of what is captured."""
    told: dict[int, bytes] = {}
    barrier = threading.Barrier(size)

    def gather(rank: int, mine: Any) -> list[Any]:
        told[rank] = pickle.dumps(mine)
        barrier.wait(20)
        everyone = [pickle.loads(told[one]) for one in sorted(told)]
        barrier.wait(20)
        return everyone

    groups = [Mock(gather_objects=functools.partial(gather, rank)) for rank in range(size)]
    return SimpleNamespace(groups=groups, wait=barrier.wait, states=[])


BATCHES = torch.arange(80.0).reshape(10, 8) + 0.5
OF_SOME = (BATCHES.long() * 7 % 5) > 1  # of six samples, of four, of five


def keeps_entries(begun: int, rank: int, both: SimpleNamespace) -> dict[str, Any]:
    """Run a script that keeps entries of all or some samples. A second replica comes after `begun` batches."""
    some: list[float] = []
    labels: list[int] = []
    every, rows, array, numbers = (
        torch.tensor([]),
        torch.zeros(0, 2),
        np.array([]),
        torch.tensor([], dtype=torch.long),
    )
    rows_of_some = torch.zeros(0, 2)
    log = [0.5]
    mine = OwnVariables()
    mine.begin()

    def takes(values: torch.Tensor, chosen: torch.Tensor, samples: int) -> None:
        nonlocal every, rows, array, numbers, rows_of_some
        mine.begin_batch(may_repeat=True, several=False)
        mine.begin_part(last=True, is_copy=False)
        some.extend(values[chosen].tolist())
        labels.extend((values[chosen].long() % 2).tolist())
        every = torch.cat([every, values])
        rows = torch.cat([rows, torch.stack([values, -values], 1)])
        rows_of_some = torch.cat([rows_of_some, torch.stack([values, -values], 1)[chosen]])
        array = np.append(array, values.numpy())
        numbers = torch.cat([numbers, values.long() % 2])
        if rank == 0:
            log.append(float(values.mean()))
        mine.end_part(Given(len(values), samples), True)

    if rank == 0:
        mine.begin_pass(0, 1)
        for values, chosen in zip(BATCHES[:begun], OF_SOME[:begun], strict=True):
            takes(values, chosen, 8)
        mine.look_as_one(together(1).groups[0], 8.0 * begun)
        both.states.append(mine.state(in_pass=True, pass_samples=8 * begun))
        mine.take_share(0, 2)
        both.wait(20)
    else:
        both.wait(20)
        mine.load(both.states[0])
        mine.begin_pass(1, 2)
        mine.arrive(1, 2)
    for values, chosen in zip(BATCHES[begun:6], OF_SOME[begun:6], strict=True):
        half = slice(5, 8) if rank else slice(0, 5)
        takes(values[half], chosen[half], 8)
    for _ in range(2):
        mine.look_as_one(both.groups[rank], 4.0)
        both.states.append(mine.state(in_pass=True, pass_samples=48))
        mine.take_share(rank, 2)
    return {
        "some": some, "labels": labels, "every": every, "rows": rows, "rows_of_some": rows_of_some, "array": array,
        "numbers": numbers, "log": log,
    }  # fmt: skip


@pytest.mark.parametrize("begun", [0, 1, 3])
def test_entries_of_some_samples_and_rows_put_together_are_those_of_one_process(begun: int) -> None:
    both = together(2)
    with ThreadPoolExecutor(2) as pool:
        ran = [pool.submit(keeps_entries, begun, rank, both) for rank in range(2)]
        parts = [one.result() for one in ran]
    every, some = BATCHES[:6].flatten().tolist(), BATCHES[:6][OF_SOME[:6]].tolist()
    labels = [(value, int(value) % 2) for value in some]
    for state in both.states[-4:]:
        one = next(frame["variables"] for frame in state["now"] if "rows_of_some" in frame["variables"])
        assert sorted(zip(one["some"], one["labels"], strict=True)) == labels
        assert sorted(one["every"].tolist()) == sorted(one["array"].tolist()) == every
        assert sorted(one["rows"].tolist()) == [[value, -value] for value in every]
        assert sorted(one["rows_of_some"].tolist()) == [[value, -value] for value in some]
        assert one["numbers"].sum() == sum(int(value) % 2 for value in every)
        assert len(one["numbers"]) == len(every)
    shares = [pair for part in parts for pair in zip(part["some"], part["labels"], strict=True)]
    assert sorted(shares) == labels
    assert sorted(value for part in parts for value in part["every"].tolist()) == every
    assert [len(part["log"]) for part in parts] == [7, 7]


@pytest.mark.parametrize("passes", [2, 3])
def test_rows_put_together_hold_those_of_all_passes(passes: int) -> None:
    every, of_batches = torch.tensor([]), torch.tensor([])
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for batch in BATCHES[:, :6]:
        mine.begin_batch(may_repeat=False, several=True)
        for number, part in enumerate(batch.chunk(passes)):
            mine.begin_part(number == passes - 1, is_copy=False)
            every = torch.cat([every, part])
            of_batches = torch.cat([of_batches, part.mean()[None]])
            mine.end_part(Given(len(part), 6), number == passes - 1)
    assert every.tolist() == BATCHES[:, :6].flatten().tolist()
    assert len(of_batches) == 10


def test_what_only_some_replicas_have_spoils_nothing_else() -> None:
    known = Known(over_samples={"f/seen", "f/x/seen"})
    rank_0 = {"seen": 5, "log": [0.5], "x": {ATTRIBUTES: "X", "values": {"seen": 2, "best": 0.5}}}
    rank_1 = {"seen": 3, "x": {ATTRIBUTES: "X", "values": {"seen": 1}}}
    one = variables_alone([rank_0, rank_1], [0.0, 1.0], known, 1.0, "f")
    assert one == {"seen": 8, "log": [0.5], "x": {ATTRIBUTES: "X", "values": {"seen": 3, "best": 0.5}}}
    widths = [torch.zeros(1, 2), torch.zeros(2, 3)]
    assert as_alone(widths, [1.0, 1.0], Known(alike={"f/x": 0}), path="f/x") is widths[0]


@pytest.mark.parametrize(
    ("growth", "by_samples"),
    [(4, True), (3, True), (1, None), (-1, False), (2.0, True), (0.5, False), (6.0, True), (1.5, True)],
)
def test_how_a_sum_grows_tells_what_it_is_over(growth: float, by_samples: bool | None) -> None:
    """With four samples whose loss is 1.5, or 0.375 each."""
    assert grows_by_samples(growth, 4, [6.0, 1.5]) is by_samples


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_samples_are_shared_whole(samples: int, replicas: int) -> None:
    assert sum(share_of(samples, rank, replicas) for rank in range(replicas)) == samples


def begins(state: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a script for a while, or from its state on. Return its variables and its state."""
    best, history, patience, device, epoch = 1e9, [0.0], 3, "cuda:0", 0
    seen, trainer = 0, Trainer()
    mine = OwnVariables()
    mine.begin()
    if state is not None:
        device = "cuda:1"
        mine.load(state)
        mine.begin_pass(0, 1)
    else:
        mine.begin_pass(0, 1)
        best, epoch, seen = 0.25, 2, 40
        history += [0.5, 0.25]
        trainer.meters["loss"].update(0.25, 8)
    told = mine.state(in_pass=False, pass_samples=0)
    return {
        "best": best, "history": history, "patience": patience, "device": device, "epoch": epoch, "seen": seen,
        "sum": trainer.meters["loss"].sum,
    }, told  # fmt: skip


def test_a_newcomer_gets_what_training_has_made_of_variables_and_keeps_what_is_its_own() -> None:
    there, state = begins(None)
    newcomer, again = begins(state)
    assert newcomer == {**there, "device": "cuda:1"}
    assert again["now"][-2]["variables"].keys() == state["now"][-2]["variables"].keys()


class Placed:
    """An object of a trainer's kind: it knows where it is, and what it has found."""

    def __init__(self, rank: int) -> None:
        self.rank, self.device, self.is_main = rank, f"cuda:{rank}", rank == 0
        self.main_loss = 9.0


def named(state: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Do as `begins`, for a script whose names have to do with places, or seem to."""
    main_loss, best_main_acc, rank_loss, seed_scores, words = 9.0, 0.0, 9.0, [0.0], {"host": 1}
    rank = int(state is not None)
    config, placed = {"lr": 0.5, "rank": rank}, Placed(rank)
    mine = OwnVariables()
    if state is None:
        mine.begin()
        mine.begin_pass(0, 1)
        local_rank, is_main_process, device, num_gpus = 0, True, "cuda:0", 1
        main_loss, best_main_acc, rank_loss, seed_scores, words = 1.0, 0.5, 2.0, [0.5], {"host": 7}
        config["lr"], placed.main_loss = 0.25, 1.0
    else:
        local_rank, is_main_process, device, num_gpus = 1, False, "cuda:1", 2
        mine.begin()
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    places = [rank, local_rank, is_main_process, device, num_gpus, config["rank"]]
    return {
        "places": [*places, placed.rank, placed.device, placed.is_main],
        "found": [main_loss, best_main_acc, rank_loss, seed_scores, words, config["lr"], placed.main_loss],
    }, told  # fmt: skip


def test_whole_names_tell_what_is_of_a_place_and_stays_there() -> None:
    there, state = named(None)
    newcomer, _ = named(state)
    assert newcomer["found"] == there["found"] == [1.0, 0.5, 2.0, [0.5], {"host": 7}, 0.25, 1.0]
    assert there["places"] == [0, 0, True, "cuda:0", 1, 0, 0, "cuda:0", True]
    assert newcomer["places"] == [1, 1, False, "cuda:1", 2, 1, 1, "cuda:1", False]


@pytest.mark.parametrize(
    ("name", "value", "is_place"),
    [
        ("my_rank", 1, True),
        ("LOCAL_RANK", 1, True),
        ("world_size", 2, True),
        ("device0", "cuda:0", True),
        ("ngpus_per_node", 8, True),
        ("main", True, True),
        ("main", 3, False),
        ("mean_rank", 3, False),
        ("rank", 0.5, False),
        ("batch_size", 3, False),
    ],
)
def test_names_of_places(name: str, value: Any, is_place: bool) -> None:
    assert is_of_place(name, value) is is_place


class Slotted:
    __slots__ = ("best", "unset")

    def __init__(self) -> None:
        self.best = 9.0


class Best(NamedTuple):
    loss: float = 9.0
    history: tuple[float, ...] = ()


def of_several(state: dict[str, Any] | None) -> tuple[list[Any], dict[str, Any]]:
    """Do as `begins`, for a script that keeps objects and models in tuples and lists."""
    model = nn.Linear(1, 1, bias=False)
    meters, best, snapshots = (Meter(), Meter()), (9.0, None), [copy.deepcopy(model)]
    recent: deque[Meter] = deque([Meter()])
    by_name, slotted, named = {"first": (0, Meter())}, Slotted(), Best()
    kept: dict[str, Any] = {}
    current = model
    mine = OwnVariables([model])
    mine.begin()
    if state is None:
        mine.begin_pass(0, 1)
        for i, meter in enumerate((*meters, recent[0], by_name["first"][1])):
            meter.update(i + 1.0, 8)
        with torch.no_grad():
            model.weight.fill_(2.0)
        best, current = (0.5, copy.deepcopy(model)), copy.deepcopy(model)
        snapshots.append(copy.deepcopy(model))
        kept["last"] = {"acc": 0.5, "models": [copy.deepcopy(model)]}
        by_name["first"] = (1, by_name["first"][1])
        slotted.best, named = 0.5, Best(0.5, (1.0, 0.5))
    else:
        with torch.no_grad():
            model.weight.fill_(3.0)
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    all_meters = (*meters, recent[0], by_name["first"][1])
    models = [best[1], current, snapshots[1], kept["last"]["models"][0]]
    found = [[one.weight.item() for one in models], [vars(meter) for meter in all_meters]]
    return [*found, best[0], by_name["first"][0], slotted.best, named, len(snapshots), current is model], told


def test_objects_and_models_in_tuples_and_lists_stay_what_they_are() -> None:
    there, state = of_several(None)
    newcomer, _ = of_several(state)
    assert newcomer == there
    assert there[0] == [2.0] * 4
    assert [one["sum"] for one in there[1]] == [8.0, 16.0, 24.0, 32.0]


@pytest.mark.parametrize("passes", [1, 2])
def test_sums_of_objects_in_tuples_and_slots_are_seen(passes: int) -> None:
    meters, slotted = (Meter(), [Meter()]), Slotted()
    slotted.best = 0
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    for _ in range(4):
        mine.begin_batch(may_repeat=False, several=passes > 1)
        for number in range(passes):
            mine.begin_part(number == passes - 1, is_copy=False)
            for meter in (meters[0], meters[1][0]):
                meter.update(1.5, 8 // passes)
            slotted.best += 1
            mine.end_part(Given(8 // passes, 8), number == passes - 1)
    assert [(meter.count, meter.sum) for meter in (meters[0], meters[1][0])] == [(32, 48.0)] * 2
    assert slotted.best == 4
    over = mine.state(in_pass=True, pass_samples=0)["known"]["over_samples"]
    assert {path.split("/", 2)[2] for path in over} >= {"meters/0/sum", "meters/0/count", "meters/1/0/count"}


@dataclass
class Record:
    epoch: int
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=2))


class Watch:
    """Something that a newcomer cannot make."""

    def __init__(self) -> None:
        self.best, self.lock = 0.5, threading.Lock()


def made_later(state: dict[str, Any] | None, cannot: bool = False) -> tuple[list[Any], dict[str, Any]]:
    """Do as `begins`, for a script that makes objects of its own while it trains."""
    model = nn.Linear(1, 1, bias=False)
    history: list[Record] = []
    best, average, watch, meters = None, None, None, defaultdict(Meter)
    trainer = Trainer()
    mine = OwnVariables([model])
    mine.begin()
    if state is None:
        mine.begin_pass(0, 1)
        history += [Record(0, deque([0.25, 0.5], 2)), Record(1)]
        best, average = history[0], Average(model, 0.5)
        meters["acc"].update(0.5, 8)
        trainer.meters["acc"] = meters["acc"]
        late = Watch()
        watch = late if cannot else None
    else:
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    if best is not None:
        best.losses.append(0.125)
    found = [history, best is history[0], average and (average.decay, average.model.weight.item()), watch]
    return [*found, vars(meters["acc"]), trainer.meters["acc"] is meters["acc"]], told


class Average:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = copy.deepcopy(model), decay
        self.model.weight.data.fill_(2.0)


def test_objects_that_training_has_made_are_made_by_a_newcomer() -> None:
    there, state = made_later(None)
    newcomer, _ = made_later(state)
    assert newcomer == there
    assert there[:3] == [[Record(0, deque([0.5, 0.125], 2)), Record(1)], True, (0.5, 2.0)]
    assert newcomer[0][0].losses.maxlen == 2


def test_an_object_that_a_newcomer_cannot_make_is_named() -> None:
    _, state = made_later(None, cannot=True)
    with pytest.raises(ValueError, match=r"the variable watch cannot .* Watch holds what cannot .* \(lock\)"):
        made_later(state)


class Warm:
    def __init__(self) -> None:
        self.rate = 0.5


class Main(Warm):
    pass


class Phase(Enum):
    WARM = 1
    MAIN = 2


def halved(value: float) -> float:
    return value / 2


def rebound(state: dict[str, Any] | None, lost: str = "") -> tuple[list[Any], dict[str, Any]]:
    """Do as `begins`, for a script whose variables hold other objects later."""
    model = nn.Linear(1, 1)
    adam, sgd = torch.optim.Adam(model.parameters()), torch.optim.SGD(model.parameters())
    warm, trainer, stages = Warm(), Trainer(), {"main": Main()}
    dataset = SimpleNamespace(transform=math.sqrt)
    optimizer, function, phase, current, criterion = adam, math.sqrt, Phase.WARM, warm, nn.L1Loss()
    mine = OwnVariables([model], {"dataset": dataset})
    mine.begin()
    if state is None:
        mine.begin_pass(0, 1)
        optimizer, function, phase, current = sgd, halved, Phase.MAIN, stages["main"]
        current.rate = 0.25
        trainer.left = sgd
        dataset.transform = halved
        if lost == "criterion":
            criterion = nn.MSELoss()
        if lost == "dataset.transform":
            dataset.transform = lambda value: value
    else:
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    which = [optimizer is sgd, trainer.left is sgd, function is dataset.transform is halved]
    rates = [current is stages["main"], current.rate, warm.rate]
    return [*which, phase.name, *rates, Phase.WARM.value, type(criterion).__name__], told


def test_a_variable_that_holds_another_object_later_holds_it_in_a_newcomer() -> None:
    there, state = rebound(None)
    newcomer, _ = rebound(state)
    assert newcomer == there == [True, True, True, "MAIN", True, 0.25, 0.5, 1, "L1Loss"]


@pytest.mark.parametrize("lost", ["criterion", "dataset.transform"])
def test_a_variable_that_holds_what_no_newcomer_has_is_named(lost: str) -> None:
    _, state = rebound(None, lost)
    with pytest.raises(ValueError, match=f"{lost} cannot be taken over: it holds .*, not the "):
        rebound(state)


class Guessed(Dataset[Any]):
    def __init__(self) -> None:
        self.x, self.y, self.used = torch.arange(4.0), torch.zeros(4), np.zeros(4)

    def __len__(self) -> int:
        return len(self.x)


def guessed(state: dict[str, Any] | None) -> tuple[list[Any], dict[str, Any]]:
    """Do as `begins`, for a script that writes into its data."""
    labels, weights, last = torch.zeros(4), np.ones(4), torch.arange(4.0)
    data, dataset = last, Guessed()
    pairs = TensorDataset(labels)
    mine = OwnVariables((), {"dataset": ConcatDataset([dataset])})
    mine.begin()
    if state is None:
        mine.begin_pass(0, 1)
        labels[1], weights[1], dataset.y[1], dataset.used[1] = 1.0, 0.5, 1.0, 1.0
        last = torch.ones(4)
    else:
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    arrays = [labels, weights, dataset.y, dataset.used, dataset.x, last, data, pairs.tensors[0]]
    return [array.tolist() for array in arrays], told


def test_what_training_has_written_into_data_is_there_in_a_newcomer() -> None:
    there, state = guessed(None)
    newcomer, _ = guessed(state)
    assert newcomer == there
    assert there[0] == there[2] == there[3] == newcomer[-1] == [0.0, 1.0, 0.0, 0.0]
    assert "dataset/datasets/0/x" not in state["now"][-1]["variables"]


class Log:
    def __init__(self) -> None:
        self.rows: list[tuple[int, float]] = []
        self.last = 0.0


def long_ones(state: dict[str, Any] | None) -> tuple[list[Any], dict[str, Any], set[str]]:
    """Do as `begins`, for a script that keeps much."""
    data = [(i, str(i)) for i in range(MOST_ITEMS + 1)]  # as a script has it in memory
    words = {i: str(i) for i in range(MOST_ITEMS + 1)}
    losses, few, texts, by_step = [0.5], [0.5], [""], {0: 0.5}
    log = Log()
    mine = OwnVariables()
    mine.begin()
    if state is None:
        mine.begin_pass(0, 1)
        losses += [float(i) for i in range(2 * MOST_ITEMS)]
        few += [float(i) for i in range(10)]
        texts += [str(i) for i in range(MOST_ITEMS)]
        by_step |= {i: float(i) for i in range(MOST_ITEMS + 1)}
        log.rows, log.last = [(i, 0.5) for i in range(MOST_ITEMS + 1)], 0.25
    else:
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    assert len(data) == len(words) == MOST_ITEMS + 1
    return [losses, few, log.last, len(texts) > 1, len(by_step) > 1, len(log.rows) > 1], told, mine.too_large


def test_long_lists_of_numbers_travel_and_what_is_too_large_is_named() -> None:
    there, state, left = long_ones(None)
    newcomer, _, _ = long_ones(state)
    assert newcomer[:3] == there[:3]
    assert newcomer[3:] == [False] * 3
    assert left == {"texts", "by_step", "Log.rows"}


def test_long_lists_are_those_of_one_process() -> None:
    long = [float(i) for i in range(MOST_ITEMS + 1)]
    more = [value + 4 for value in long]
    known = Known()
    assert as_alone([long, list(long)], [1.0, 3.0], known, path="f/x") is long
    assert as_alone([long, more], [1.0, 3.0], known, path="f/x") == [value + 3 for value in long]
    known = Known(over_samples={"f/x"})
    one = as_alone([long, more[1:]], [1.0, 3.0], known, path="f/x")
    assert len(one) == 2 * MOST_ITEMS + 1
    assert [len(shared(one, known, rank, 2, "f/x")) for rank in range(2)] == [MOST_ITEMS + 1, MOST_ITEMS]


def timed(state: dict[str, Any] | None) -> tuple[list[float], dict[str, Any]]:
    """Do as `begins`, for a script that notes when it did something last."""
    last, rate, log = 0.0, 0.0, Log()
    mine = OwnVariables()
    mine.begin()
    if state is None:
        mine.begin_pass(0, 1)
        last, rate, log.last = time.monotonic(), time.monotonic() // 1, time.perf_counter()
    else:
        mine.load(state)
        mine.begin_pass(0, 1)
    told = mine.state(in_pass=False, pass_samples=0)
    return [last, log.last, rate], told


def test_readings_of_a_clock_are_as_long_ago_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    there, state = timed(None)
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() - 50_000)  # one that was started later
    here, _ = timed(state)
    assert here[:2] == [pytest.approx(value - 50_000, abs=5) for value in there[:2]]
    assert here[2] == there[2]


def counter() -> Callable[[], int]:
    count, window = 0, [0, 0]

    def one() -> int:
        nonlocal count, window
        count += 1
        window = [*window[1:], count]
        return sum(window)

    return one


def test_what_a_returned_function_encloses_is_kept_and_undone() -> None:
    one = counter()
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    mine.begin_batch(may_repeat=True, several=False)
    assert [one(), one()] == [1, 3]
    mine.undo_batches()
    assert one() == 1  # as for the first time
    state = mine.state(in_pass=False, pass_samples=0)
    held = {name: value for frame in state["now"] for name, value in frame["variables"].items()}
    assert held["one"]["values"] == {"count": 1, "window": [0, 1]}


def test_a_generator_in_a_variable_draws_in_each_pass_what_it_drew_in_the_first() -> None:
    draw = np.random.default_rng(0)
    expected = np.random.default_rng(0).random(2).tolist()
    mine = OwnVariables()
    mine.begin()
    mine.begin_pass(0, 1)
    drawn = []
    for _ in range(2):
        mine.begin_batch(may_repeat=False, several=True)
        for number in range(2):
            mine.begin_part(number == 1, is_copy=False)
            drawn.append(float(draw.random()))
            mine.end_part(Given(3, 3), number == 1)
    assert drawn == expected


def test_a_generator_that_decides_on_samples_is_left_to_the_data() -> None:
    order = torch.Generator().manual_seed(1)
    mine = OwnVariables(ordering={id(order)}, reading={id(order)})
    mine.begin()
    mine.begin_pass(0, 1)
    mine.begin_batch(may_repeat=True, several=False)
    first = torch.rand(1, generator=order)
    mine.undo_batches()
    assert float(torch.rand(1, generator=order)) != float(first)
    state = mine.state(in_pass=False, pass_samples=0)
    assert not any("order" in frame["variables"] for frame in state["now"])


@pytest.mark.parametrize(
    ("growth", "of_batches"),
    [(4, False), (8, True), (20, False), (40, True), (3, False), (7, False), (4.0, False)],
)
def test_a_count_that_grows_by_the_whole_batch_where_a_part_was_given_is_none_over_samples(
    growth: float, of_batches: bool
) -> None:
    """Four samples of eight, each of five tokens."""
    assert is_of_batches(growth, 4, 8, {4, 20}) is of_batches
