"""What can be wrong with reads that are cached and with budgets, each with its one sentence.

`tests/executor/training/caching/test_bad_samples.py` holds every row; `benchmarks/bad_input.py` prints them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import coadapt
from coadapt.estimators.cpu_plan import next_cpus
from coadapt.executor.training.caching.cached_read import CachedRead
from coadapt.executor.training.caching.node_cache import NodeCache, check_budget

MIB = 1 << 20


def _read_twice(folder: Path) -> None:
    numbers = itertools.count()
    CachedRead(lambda key: next(numbers), NodeCache(folder / "home" / "job", MIB), "augmented")(3)


def _read_a_generator(folder: Path) -> None:
    CachedRead(lambda key: (i for i in range(3)), NodeCache(folder / "home" / "job", MIB), "lazy")(3)


def _same_name(folder: Path) -> None:
    cache = NodeCache(folder / "home" / "job", MIB)
    CachedRead(lambda key: "train", cache, "images")(1)
    CachedRead(lambda key: "test", cache, "images")(1)


# what, what is done in a folder, the sentence
BAD_SAMPLES: list[tuple[str, Callable[[Path], object], str]] = [
    (
        "a cached list",
        lambda folder: coadapt.cached([1, 2]),  # type: ignore[arg-type]
        "cached: a list cannot be called; a function that returns the sample of a key is accepted",
    ),
    (
        "a read that draws random numbers",
        _read_twice,
        "cached: augmented(3) answers differently the second time; wrap a read that answers the same for the same "
        "key, and change samples at random after it",
    ),
    (
        "two reads of one name",
        _same_name,
        "cached: images(1) answers differently the second time; wrap a read that answers the same for the same "
        "key, and change samples at random after it",
    ),
    (
        "a read that returns a generator",
        _read_a_generator,
        "cached: lazy returns a generator that cannot be pickled (cannot pickle 'generator' object); bytes, "
        "arrays and tensors can be kept",
    ),
    (
        "a budget below one sample",
        lambda folder: check_budget(1000, 110_000),
        "cached: the budget of 1000 bytes is below one sample of 110000 bytes, so nothing is cached; "
        "memory_gib_per_gpu gives the job more",
    ),
    (
        "no CPUs to measure on",
        lambda folder: next_cpus({}, 0),
        "most: 0 CPUs to measure on; 1 or more is accepted",
    ),
]


def answer(act: Callable[[Path], object], folder: Path) -> str:
    """Return the sentence that refuses it; "" where nothing does."""
    try:
        act(folder)
    except (TypeError, ValueError) as refused:
        return str(refused)
    return ""
