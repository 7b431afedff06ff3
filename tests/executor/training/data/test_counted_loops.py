"""What counts training batches counts each of them once, however many passes it takes; all else is as before."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.executor.training.data import counted_loops
from coadapt.executor.training.data.elastic_loader import make_elastic
from coadapt.executor.training.variables import seen_sums
from coadapt.executor.training.variables.undue import Undue
from torch.utils.data import DataLoader, TensorDataset

BATCHES = 6


@dataclass
class Passes:
    """A loop of so many passes for each batch, some of which are done again."""

    passes: list[int]
    again: set[int] = field(default_factory=set)
    batch_number: int = 0
    pass_number: int = 0
    partial: bool = False
    trained: bool = True
    samples_shared: int | None = None
    said: list[str] = field(default_factory=list)
    _following: int = 0

    def batches(self) -> Iterator[str]:
        self._following, again, number = 0, set(self.again), 0
        while number < len(self.passes):
            for left in range(self.passes[number])[::-1]:
                self.batch_number, self.partial, self.pass_number = number, left > 0, self.pass_number + 1
                goes_on = left == 0 and number not in again
                self._following = number + goes_on
                yield f"b{number}"
            if number in again:
                again.discard(number)
            else:
                number += 1

    def next_number(self) -> int:
        return self._following

    def batch_count(self) -> int:
        return len(self.passes)

    def note_counting(self, how: str) -> None:
        self.said.append(how)


@pytest.fixture
def counting() -> Iterator[None]:
    yield
    counted_loops._Counting.numbers = None


def loader_of(loop: Passes) -> DataLoader:
    loader: DataLoader = DataLoader(TensorDataset(torch.arange(BATCHES)))
    make_elastic(loader, loop)
    counted_loops.count_batches(loop)
    return loader


def last_passes(items: Any, loop: Passes) -> list[Any]:
    """Return what a script was given in the last pass of each batch, once."""
    found: dict[int, Any] = {}
    for item in items:
        if not loop.partial:
            found[loop.batch_number] = item
    return [found[number] for number in sorted(found)]


WAYS: dict[str, Any] = {
    "enumerate": lambda loader: enumerate(loader),
    "enumerate from 1": lambda loader: enumerate(loader, 1),
    "islice": lambda loader: itertools.islice(loader, 4),
    "islice with a step": lambda loader: itertools.islice(loader, 1, 6, 2),
    "islice to the end": lambda loader: itertools.islice(loader, 2, None),
    "enumerate of islice": lambda loader: enumerate(itertools.islice(loader, 1, 5)),
    "islice of enumerate": lambda loader: itertools.islice(enumerate(loader), 0, 5, 3),
    "zip with a range": lambda loader: zip(range(4), loader, strict=False),
    "zip with a count": lambda loader: zip(loader, itertools.count(1)),
    "zip with a list": lambda loader: zip([3, 2, 1, 0], loader, strict=False),
    "enumerate of zip": lambda loader: enumerate(zip(loader, range(9), strict=False)),
    "a generator": lambda loader: enumerate(item.upper() for item in loader),
}


def alone(way: str) -> list[Any]:
    return list(WAYS[way]([f"b{i}" for i in range(BATCHES)]))


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("way", WAYS)
def test_a_batch_counts_once_whatever_its_passes(way: str) -> None:
    dice = random.Random(3)
    for _ in range(20):
        loop = Passes([dice.randint(1, 3) for _ in range(BATCHES)])
        assert last_passes(WAYS[way](loader_of(loop)), loop) == alone(way)


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("way", WAYS)
def test_a_batch_that_is_done_again_has_the_same_number(way: str) -> None:
    loop = Passes([1] * BATCHES, again={0, 2, 3})
    assert last_passes(WAYS[way](loader_of(loop)), loop) == alone(way)


@pytest.mark.usefixtures("counting")
def test_numbers_equal_nothing_before_the_last_pass() -> None:
    loop = Passes([2, 2])
    numbers = [i for i, _ in enumerate(loader_of(loop))]
    assert [isinstance(i, Undue) for i in numbers] == [True, False, True, False]
    assert loop.said == ["enumerate(loader)"]
    numbers = [i for i, _ in zip(range(2), loader_of(Passes([2, 2])), strict=False)]
    assert [isinstance(i, Undue) for i in numbers] == [True, False, True, False]


@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize(("count", "equal"), [(2, False), (3, True), (4, False)])
@pytest.mark.parametrize("first", [False, True])
def test_a_strict_zip_is_strict(count: int, equal: bool, first: bool) -> None:
    loop = Passes([2, 1, 2])
    loader = loader_of(loop)
    zipped = zip(range(count), loader, strict=True) if first else zip(loader, range(count), strict=True)
    if equal:
        assert len(list(zipped)) == 5
    else:
        with pytest.raises(ValueError, match="unequal length"):
            list(zipped)


@pytest.mark.usefixtures("counting")
def test_pieces_of_a_batch_are_counted_each() -> None:
    loop = Passes([2, 1])

    def halves(loader: Any) -> Iterator[str]:
        for item in loader:
            yield f"{item}a"
            yield f"{item}b"

    found = [(int(i), item) for i, item in enumerate(halves(loader_of(loop)))]
    assert found == [(0, "b0a"), (1, "b0b"), (0, "b0a"), (1, "b0b"), (2, "b1a"), (3, "b1b")]


@pytest.mark.usefixtures("counting")
def test_epochs_that_do_not_begin_at_0_find_what_belongs_to_them() -> None:
    count_from = Passes([1])
    loader_of(count_from)

    def epochs() -> Iterator[int]:
        yield from (2, 3, 3, 4)

    def left() -> Iterator[int]:
        return counted_loops.known_as_numbers(epochs())

    rows = list(zip(left(), "abcde", [0, 1, 2, 3, 4], strict=False))
    assert rows == [(2, "a", 2), (3, "b", 3), (3, "c", 3), (4, "d", 4)]
    assert list(zip([0, 1, 2, 3], left(), strict=False)) == [(2, 2), (3, 3), (3, 3)]
    assert [number for number, _ in enumerate(left(), 1)] == [3, 4, 4, 5]


@pytest.mark.usefixtures("counting")
def test_what_holds_no_batches_is_counted_as_before() -> None:
    loader_of(Passes([2, 2]))
    plain: DataLoader = DataLoader(TensorDataset(torch.arange(3)))
    assert [i for i, _ in enumerate(plain)] == [0, 1, 2]
    assert list(zip([1, 2], "ab", strict=True)) == [(1, "a"), (2, "b")]
    assert list(itertools.islice([1, 2, 3], 2)) == [1, 2]
    assert isinstance(enumerate([]), enumerate)
    assert isinstance(zip(), zip)
    with pytest.raises(ValueError, match="zip"):
        list(zip([1], [1, 2], strict=True))
    with pytest.raises(ValueError, match="islice"):
        itertools.islice(loader_of(Passes([1])), -1)


@pytest.mark.usefixtures("counting")
def test_compiled_code_counts_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_sums, "_compiles", False)  # which compiling sets for the whole process
    loader_of(Passes([1]))

    def f(x: torch.Tensor) -> torch.Tensor:
        for i, (a, b) in enumerate(zip([1.0, 2.0], [3.0, 4.0], strict=False)):
            x = x + a * b * i
        return x

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == f(torch.ones(2)).tolist()


@pytest.mark.slow
def test_what_is_compiled_or_saved_finds_pythons_own(tmp_path: Path) -> None:
    """numba is imported by scripts, too: after its names were taken."""
    code = """
import itertools, pickle
from coadapt.executor.training.data import counted_loops
counted_loops.install()
import numba, numpy, torch

def f(values):
    total = values.max()
    for i, (a, b) in enumerate(zip(values, values)):
        total += i * a * b
    return total

@torch.jit.script
def g(values: list[torch.Tensor]):
    total = torch.zeros(())
    for i, (a, b) in enumerate(zip(values, values)):
        total += i * a * b
    return total

assert numba.njit(f)(numpy.arange(4.0)) == f(numpy.arange(4.0)) == 39
assert g(list(torch.arange(4.0))) == 36
for made in (enumerate("ab"), zip("ab", range(2)), itertools.islice(iter("ab"), 1)):
    assert list(pickle.loads(pickle.dumps(made))) == list(made)
    assert type(made) in {enumerate, zip, itertools.islice}
"""
    (tmp_path / "code.py").write_text(code)  # TorchScript reads it
    subprocess.run([sys.executable, "code.py"], cwd=tmp_path, check=True)
