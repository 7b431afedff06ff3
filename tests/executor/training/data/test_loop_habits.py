"""How a loop treats its batches is seen while it runs: whether it counts them, calls for them, or reads ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from coadapt.executor.training.data.loop_habits import LOOKS, AheadWatch, LoopHabits, takes_by_next
from coadapt.executor.training.variables import own_code
from torch import nn

RATES = [0.1]


# --- counting ------------------------------------------------------------------------------------------------

BATCHES = "0123456789"  # as texts: a number of the batch would be a counter itself


def plain(habits: LoopHabits) -> None:
    """Run a loop that counts nothing. `total` moves as no counter does."""
    total = 0
    for batch in BATCHES:
        habits.look(int(batch), RATES, has_scheduler=False)
        total += 7
    assert total == 70


def counter(habits: LoopHabits) -> None:
    step = 100
    for batch in BATCHES:
        habits.look(int(batch), RATES, has_scheduler=False)
        step += 1
    assert step == 110


class Trainer:
    def __init__(self) -> None:
        self.steps = 0


def counter_of_an_object(habits: LoopHabits) -> None:
    trainer = Trainer()
    for batch in BATCHES:
        habits.look(int(batch), RATES, has_scheduler=False)
        trainer.steps += 1


def rate_set_by_hand(habits: LoopHabits) -> None:
    for batch in BATCHES:
        habits.look(int(batch), [0.1 / (1 + int(batch))], has_scheduler=False)


def rate_of_a_scheduler(habits: LoopHabits) -> None:
    for batch in BATCHES:
        habits.look(int(batch), [0.1 / (1 + int(batch))], has_scheduler=True)


def counter_of_other_things(habits: LoopHabits) -> None:
    """Run a loop with a number that moves by one now and then, as one of validations does."""
    found = 0
    for batch in BATCHES:
        habits.look(int(batch), RATES, has_scheduler=False)
        found += int(batch) % 2
    assert found == 5


@pytest.mark.parametrize(
    ("loop", "counts"),
    [
        (plain, False),
        (counter, True),
        (counter_of_an_object, True),
        (rate_set_by_hand, True),
        (rate_of_a_scheduler, False),
        (counter_of_other_things, False),
    ],
)
def test_a_loop_counts_where_a_number_moves_with_every_batch(
    loop: Callable[[LoopHabits], None], counts: bool
) -> None:
    habits = LoopHabits()
    loop(habits)
    assert habits.counts is counts


def test_a_few_batches_have_to_be_seen() -> None:
    habits = LoopHabits()
    seen = []
    for _ in range(LOOKS):
        habits.look(len(seen), RATES, has_scheduler=False)
        seen.append(habits.looked)
    assert seen == [False] * 3 + [True] * (LOOKS - 3)


# --- how a batch is taken -------------------------------------------------------------------------------------


# What the script iterates is the runtime's code, so this is compiled as a part of it.
ITERATED = """
class Batches:
    def __init__(self):
        self.by_next = []

    def __iter__(self):
        for batch in range(3):
            self.by_next.append(takes_by_next())
            yield batch
"""


@pytest.fixture
def batches() -> Any:
    """Return batches that note how each of them is taken."""
    variables: dict[str, Any] = {"takes_by_next": takes_by_next}
    exec(compile(ITERATED, f"{own_code.FOLDER}iterated.py", "exec"), variables)
    return variables["Batches"]()


def test_a_for_loop_takes_its_batches_itself_also_through_generators(batches: Any) -> None:
    def wrapped() -> Iterator[int]:
        yield from batches

    for _ in batches:
        pass
    for _ in wrapped():
        pass
    assert batches.by_next == [False] * 6


def test_a_call_of_next_is_seen_also_within_a_generator(batches: Any) -> None:
    def by_hand() -> Iterator[int]:
        inner = iter(batches)
        for _ in range(3):
            yield next(inner)

    iterator = iter(batches)
    for _ in range(3):
        next(iterator)
    for _ in by_hand():
        pass
    assert batches.by_next == [True] * 6


# --- reading ahead --------------------------------------------------------------------------------------------


@pytest.fixture
def watch() -> Iterator[AheadWatch]:
    found = AheadWatch()
    yield found
    found.end()


MODEL = nn.Linear(1, 1)


def train(watch: AheadWatch) -> None:
    MODEL(torch.zeros(1))
    watch.trained()


def test_a_loop_that_trains_on_each_batch_before_the_next_is_fine(watch: AheadWatch) -> None:
    for _ in range(5):
        watch.taken()
        train(watch)


def test_several_backwards_of_one_batch_are_fine(watch: AheadWatch) -> None:
    for _ in range(3):
        watch.taken()
        train(watch)
        watch.trained()


def test_a_second_batch_before_anything_was_done_with_the_first_is_told(watch: AheadWatch) -> None:
    watch.taken()
    with pytest.raises(RuntimeError, match="asks for its next batch before it has trained on the last one"):
        watch.taken()


def test_a_backward_of_the_batch_before_the_last_is_told(watch: AheadWatch) -> None:
    watch.taken()
    MODEL(torch.zeros(1))
    watch.taken()
    with pytest.raises(RuntimeError, match="asks for its next batch before it has trained on the last one"):
        watch.trained()


def test_only_the_first_batches_are_watched_and_models_are_left_alone_then(watch: AheadWatch) -> None:
    for _ in range(AheadWatch.BATCHES + 1):
        watch.taken()
        train(watch)
    watch.taken()
    watch.taken()
