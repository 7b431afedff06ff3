"""What a script wraps with `coadapt.cached`."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import coadapt
import numpy as np
import pytest
import torch
from coadapt.executor.protocol import messages
from coadapt.executor.training.caching import folders, node_cache
from coadapt.executor.training.caching.cached_read import CHECKED, CachedRead
from coadapt.executor.training.caching.node_cache import NodeCache
from torch.utils.data import DataLoader, Dataset


@pytest.fixture
def cache(tmp_path: Path) -> NodeCache:
    return NodeCache(tmp_path / "home" / "job", 1 << 20)


class Counted:
    """A read whose calls are counted over all processes."""

    def __init__(self, answers: Any = lambda key: f"sample {key:03}".encode()) -> None:
        self.calls = multiprocessing.get_context("fork").Value("q", 0)
        self._answers = answers

    def __call__(self, key: int) -> Any:
        with self.calls.get_lock():
            self.calls.value += 1
        return self._answers(key)


def test_a_sample_is_read_once_but_for_the_checks(cache: NodeCache) -> None:
    read = Counted()
    wrapped = CachedRead(read, cache)
    for _ in range(3):
        assert [wrapped(key) for key in range(20)] == [f"sample {key:03}".encode() for key in range(20)]
    assert read.calls.value == 20 + 2 * CHECKED


@pytest.mark.parametrize(
    "answer",
    [b"bytes", bytearray(b"more"), "text", 7, None, ("a", 1), {"a": [1.0]}, np.arange(4), torch.arange(4.0)],
)
def test_whatever_a_read_returns_comes_back_with_its_type(cache: NodeCache, answer: Any) -> None:
    wrapped = CachedRead(lambda key: answer, cache)
    wrapped(1)
    found = wrapped(1)
    assert type(found) is type(answer)
    assert pickle.dumps(found) == pickle.dumps(answer) or bool((found == answer).all())


def test_a_kept_array_may_be_written_to(cache: NodeCache) -> None:
    wrapped = CachedRead(lambda key: np.zeros(3), cache)
    wrapped(1)
    wrapped(1)[0] = 5.0
    assert wrapped(1)[0] == 0.0


def test_two_reads_of_one_function_do_not_answer_for_each_other(cache: NodeCache) -> None:
    def reads(start: int) -> Any:
        def read(key: int) -> int:
            return start + key

        return CachedRead(read, cache)

    train, test = reads(0), reads(100)
    assert [train(1), test(1), train(1), test(1)] == [1, 101, 1, 101]


def test_a_read_that_answers_differently_for_the_same_key_is_refused(cache: NodeCache) -> None:
    numbers = itertools.count()
    wrapped = CachedRead(lambda key: next(numbers), cache, "augmented")
    with pytest.raises(ValueError, match=r"^cached: augmented\(3\) answers differently the second time; wrap a"):
        wrapped(3)


def test_a_name_that_two_reads_share_is_found_out(cache: NodeCache) -> None:
    CachedRead(lambda key: "train", cache, "images")(1)
    with pytest.raises(ValueError, match=r"images\(1\) answers differently"):
        CachedRead(lambda key: "test", cache, "images")(1)


def test_what_cannot_be_called_or_kept_is_refused(cache: NodeCache) -> None:
    with pytest.raises(TypeError, match="cached: a list cannot be called; a function that returns"):
        coadapt.cached([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"cached: .* returns a generator that cannot be pickled"):
        CachedRead(lambda key: (i for i in range(3)), cache)(1)
    with pytest.raises(TypeError, match=r"is called with what cannot be pickled"):
        CachedRead(lambda key: 1, cache)(i for i in range(3))


def test_a_budget_below_one_sample_is_told_once_and_the_reads_go_on(tmp_path: Path) -> None:
    told: list[str] = []
    cache = NodeCache(tmp_path / "home" / "job", 10, told.append)
    wrapped = CachedRead(lambda key: b"x" * 100, cache)
    assert [len(wrapped(key)) for key in (1, 2, 1)] == [100] * 3
    assert told == [
        "cached: the budget of 10 bytes is below one sample of 117 bytes, so nothing is cached; "
        "memory_gib_per_gpu gives the job more"
    ]


def test_a_script_by_itself_gets_its_function_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(messages.JOB_ID, raising=False)
    monkeypatch.setattr(node_cache, "_here", None)
    assert coadapt.cached(len) is len


@pytest.fixture
def in_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(folders.folder_of, "__defaults__", (tmp_path,))
    monkeypatch.setattr(node_cache, "_here", None)
    monkeypatch.setenv(messages.JOB_ID, "j-1")
    monkeypatch.setenv(messages.NODE_ID, "n")
    monkeypatch.setenv(messages.CACHE_BYTES, str(1 << 20))


class Samples(Dataset[torch.Tensor]):
    def __init__(self, read: Any) -> None:
        self.read = coadapt.cached(read)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(list(self.read(index)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_workers_share_what_one_of_them_has_read(in_a_job: None, method: str) -> None:
    data = Samples(Counted() if method == "fork" else _read)
    for _ in range(2):
        workers = 3 if method == "fork" else 1
        loader = DataLoader(data, batch_size=4, num_workers=workers, multiprocessing_context=method)
        assert sum(len(batch) for batch in loader) == 40
    if isinstance(read := data.read._read, Counted):  # type: ignore[attr-defined]
        checks = read.calls.value - 40
        assert 0 < checks <= 2 * 2 * 3 * CHECKED, "each process of an epoch checks its first answers"
    cache = node_cache.here()
    assert cache is not None
    assert cache.shared.count == 40


def _read(key: int) -> bytes:
    return f"{key:03}".encode()
