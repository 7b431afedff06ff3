"""A cache of samples in shared memory: what came first stays, in whatever process it is asked."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

import pytest
from coadapt.executor.training.caching.shared_cache import DIGEST_BYTES, SharedCache
from hypothesis import given, settings
from hypothesis import strategies as st

SAMPLE = 1000
TAKES = SAMPLE + DIGEST_BYTES


Folders = Callable[[], Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return lambda: tmp_path_factory.mktemp("cache")


def digest(key: int) -> bytes:
    return blake2b(str(key).encode(), digest_size=DIGEST_BYTES).digest()


def sample(key: int) -> bytes:
    return bytes([key % 256]) * SAMPLE


def epoch(cache: SharedCache, keys: Iterator[int] | range) -> int:
    """Read samples as an epoch does, and return the hits."""
    hits = 0
    for key in keys:
        if (found := cache.get(digest(key))) is not None:
            assert bytes(found) == sample(key)
            hits += 1
        else:
            cache.put(digest(key), sample(key))
    return hits


def test_every_epoch_has_as_many_hits_as_the_budget_has_room_for(tmp_path: Path) -> None:
    cache = SharedCache(tmp_path, 30 * TAKES)
    orders = [range(100), reversed(range(100)), [(7 * i) % 100 for i in range(100)], range(100)]
    assert [epoch(cache, iter(order)) for order in orders] == [0, 30, 30, 30]
    assert (cache.count, cache.charged) == (30, 30 * TAKES)


def test_a_smaller_budget_drops_the_newest_and_a_larger_one_fills_on(tmp_path: Path) -> None:
    cache = SharedCache(tmp_path, 30 * TAKES)
    epoch(cache, range(100))
    cache.resize(10 * TAKES + 1)
    assert [key for key in range(100) if cache.get(digest(key)) is not None] == list(range(10))
    assert (tmp_path / "data").stat().st_size == 10 * TAKES
    cache.resize(50 * TAKES)
    assert [epoch(cache, range(100)) for _ in range(3)] == [10, 50, 50]


def test_a_cache_without_a_budget_keeps_nothing(tmp_path: Path) -> None:
    cache = SharedCache(tmp_path, 0)
    assert [epoch(cache, range(10)) for _ in range(2)] == [0, 0]


def test_a_sample_may_count_for_more_than_it_takes(tmp_path: Path) -> None:
    cache = SharedCache(tmp_path, 10_000)
    assert [cache.put(digest(key), b"x", charge=4000) for key in range(3)] == [True, True, False]


def test_more_samples_than_the_first_table_has_places_for_are_all_found(tmp_path: Path) -> None:
    cache = SharedCache(tmp_path, 1 << 30)
    for key in range(10_000):
        assert cache.put(digest(key), str(key).encode())
    other = SharedCache(tmp_path)
    assert all(bytes(other.get(digest(key)) or b"") == str(key).encode() for key in range(10_000))
    assert len(list(tmp_path.glob("table-*"))) == 1


def _fill(folder: Path, keys: range) -> None:
    cache = SharedCache(folder)
    for key in keys:
        cache.put(digest(key), sample(key))


def test_processes_that_fill_a_cache_at_once_keep_each_sample_once(tmp_path: Path) -> None:
    SharedCache(tmp_path, 150 * TAKES)
    context = multiprocessing.get_context("fork")
    fillers = [context.Process(target=_fill, args=(tmp_path, range(n, 100 + n))) for n in (0, 30, 60)]
    for filler in fillers:
        filler.start()
    for filler in fillers:
        filler.join()
        assert filler.exitcode == 0
    cache = SharedCache(tmp_path)
    assert cache.count == 150
    assert epoch(cache, range(160)) == 150
    assert epoch(cache, range(160)) == 150


def _read_and_resize(folder: Path, seed: int) -> None:
    cache = SharedCache(folder)
    for turn in range(400):
        key = (seed * 31 + turn * 7) % 60
        found = cache.get(digest(key))
        if found is not None and bytes(found) != sample(key):
            raise SystemExit(f"{key} is another one's")
        if found is None:
            cache.put(digest(key), sample(key))
        if turn % 20 == 0:
            cache.resize((10 + (seed * 13 + turn) % 50) * TAKES)


def test_no_process_ever_gets_another_sample_while_the_budget_changes(tmp_path: Path) -> None:
    SharedCache(tmp_path, 40 * TAKES)
    context = multiprocessing.get_context("fork")
    readers = [context.Process(target=_read_and_resize, args=(tmp_path, seed)) for seed in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [reader.exitcode for reader in readers] == [0] * 4


def test_shared_memory_that_is_full_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = SharedCache(tmp_path, 30 * TAKES)
    epoch(cache, range(5))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", full)
        assert not cache.put(digest(5), sample(5))
    assert epoch(cache, range(5)) == 5
    cache.resize(40 * TAKES)  # more was given, so it is tried again
    assert cache.put(digest(5), sample(5))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["put", "resize"]), st.integers(0, 20)), max_size=40))
def test_it_holds_what_came_first_of_what_fits(folders: Folders, turns: list[tuple[str, int]]) -> None:
    cache = SharedCache(folders(), 8 * TAKES)
    budget, held = 8, list[int]()
    for turn, number in turns:
        if turn == "resize":
            cache.resize(number * TAKES)
            budget = number
            held = held[:budget]
        else:
            cache.put(digest(number), sample(number))
            if number not in held and len(held) < budget:
                held.append(number)
    assert {key for key in range(21) if cache.get(digest(key)) is not None} == set(held)
    assert (cache.count, cache.charged) == (len(held), len(held) * TAKES)
