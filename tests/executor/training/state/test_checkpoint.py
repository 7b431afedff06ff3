"""A checkpoint is whole or not there, whatever happens while it is written."""

import math
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Container
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.executor.training.state.checkpoint_errors import CheckpointError, StorageError
from coadapt.executor.training.state.packing import pack, unpack
from coadapt.executor.training.variables.rng import capture_rng, restore_rng

WRITER = """
import os, sys, torch
from coadapt.executor.training.state.checkpoint import CheckpointStore
store = CheckpointStore(sys.argv[1], keep=2)
found = store.load_newest()
steps = found[1]["steps"] if found else 0
print(os.getpid(), flush=True)
while True:
    steps += 1
    store.save({"steps": steps, "data": torch.full((200_000,), float(steps))}, steps)
"""


def state(steps: int) -> dict:
    return {"steps": steps, "weights": torch.full((1000,), float(steps))}


@pytest.fixture(params=["path", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    urls = {"path": f"{tmp_path}/c", "file": f"file://{tmp_path}/c", "memory": f"memory://{tmp_path.name}/c"}
    return CheckpointStore(urls[request.param], keep=2)


def files(store: CheckpointStore) -> list[str]:
    return sorted(path.rsplit("/", 1)[-1] for path in store._fs.ls(store._root, detail=False))


def damage(store: CheckpointStore, path: str, size: int | None = None) -> None:
    """Change a bit in the middle, or cut the file to `size` bytes."""
    inside = store._fs._strip_protocol(path)
    data = bytearray(store._fs.cat_file(inside))
    data[len(data) // 2] ^= 1
    store._fs.pipe_file(inside, bytes(data[:size]))


def test_nothing_saved_nothing_found(store: CheckpointStore) -> None:
    assert (store.newest(), store.newest_valid(), store.load_newest()) == (None, None, None)


def test_what_was_saved_comes_back(store: CheckpointStore) -> None:
    path = store.save(state(7), 7)
    assert path == store.newest() == store.newest_valid()
    assert path.startswith(store.url)
    torch.testing.assert_close(store.load(path), state(7))
    again = CheckpointStore(store.url).load_newest()
    assert again is not None
    assert again[0] == path


def test_the_newest_keep_are_kept(store: CheckpointStore) -> None:
    paths = [store.save(state(steps), steps) for steps in range(1, 6)]
    assert store.newest() == paths[-1]
    assert len(files(store)) == 4
    assert store.load(paths[-2])["steps"] == 4
    with pytest.raises(CheckpointError, match="does not exist"):
        store.load(paths[0])


@pytest.mark.parametrize("size", [None, 0, 100])
def test_a_corrupt_or_torn_checkpoint_is_passed_over(store: CheckpointStore, size: int | None) -> None:
    good, bad = store.save(state(1), 1), store.save(state(2), 2)
    damage(store, bad, size)
    with pytest.raises(CheckpointError, match="corrupt"):
        store.load(bad)
    assert store.newest() == bad
    assert store.newest_valid() == good
    found = store.load_newest()
    assert found is not None
    assert found[1]["steps"] == 1


def test_a_torn_manifest_is_passed_over(store: CheckpointStore) -> None:
    good, bad = store.save(state(1), 1), store.save(state(2), 2)
    damage(store, bad.removesuffix(".pt") + ".json", 10)
    assert store.newest_valid() == good


def test_with_all_corrupt_nothing_starts_anew_and_training_can_save_again(store: CheckpointStore) -> None:
    damage(store, store.save(state(5), 5))
    with pytest.raises(CheckpointError):
        store.load_newest()
    path = store.save(state(3), 3)
    assert store.newest_valid() == path, "progress that was lost does not hide what is there"


def test_leftovers_of_dead_writers_go_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path), stale_s=60)
    now_ms = time.time_ns() // 1_000_000
    dead = tmp_path / f"step-{9:012d}-{now_ms - 120_000:013d}-aaaa.pt"
    alive = tmp_path / f"step-{9:012d}-{now_ms - 1_000:013d}-bbbb.pt"
    other = tmp_path / "notes.txt"
    for path in (dead, alive, other):
        path.write_bytes(b"half")
    store.save(state(1), 1)
    assert (dead.exists(), alive.exists(), other.exists()) == (False, True, True)
    assert store.load_newest() is not None


def test_a_failed_save_leaves_what_was_there(store: CheckpointStore) -> None:
    good = store.save(state(1), 1)
    with pytest.raises(CheckpointError, match=r"state\['user'\]\[0\] is a _thread.lock"):
        store.save({"user": [threading.Lock()]}, 2)
    assert store.newest_valid() == good
    assert len(files(store)) == 2


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="could not be written"):
        CheckpointStore(f"{tmp_path}/file/below").save(state(1), 1)


class Failing:
    """A file system whose first files fail at some point of being written; and how long was waited after each."""

    def __init__(self, store: CheckpointStore, errors: list[Exception], *, at_write: bool = False) -> None:
        self._fs, self._errors, self._at_write = store._fs, errors, at_write
        self.waits: list[float] = []
        store._fs, store._sleep = self, self.waits.append

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, mode: str) -> Any:
        if mode != "wb" or not self._errors:
            return self._fs.open(path, mode)
        error = self._errors.pop(0)
        if not self._at_write:
            raise error
        file = self._fs.open(path, mode)

        def write(data: object) -> int:
            raise error

        file.write = write
        return file


@pytest.mark.parametrize("at_write", [False, True])
def test_storage_that_fails_for_a_moment_costs_no_checkpoint(tmp_path: Path, at_write: bool) -> None:
    store = CheckpointStore(f"memory://{tmp_path.name}/c")
    failing = Failing(store, [ConnectionError("away"), TimeoutError("slow")], at_write=at_write)
    path = store.save(state(3), 3)
    assert failing.waits == [1.0, 4.0]
    assert store.load(path)["steps"] == 3
    assert len(files(store)) == 2


def test_what_a_store_keeps_wrongly_once_is_written_again(store: CheckpointStore, monkeypatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(store, "_sleep", waits.append)
    measured = iter([(1, "torn")])
    measure = store._measure
    monkeypatch.setattr(store, "_measure", lambda path: next(measured, None) or measure(path))
    path = store.save(state(3), 3)
    assert store.newest_valid() == path
    assert waits == [1.0]
    assert len(files(store)) == 2


def test_storage_that_stays_away_is_named_after_some_seconds(store: CheckpointStore) -> None:
    good = store.save(state(1), 1)
    failing = Failing(store, [ConnectionError("away")] * 5)
    with pytest.raises(StorageError, match="could not be written: ConnectionError: away"):
        store.save(state(2), 2)
    assert failing.waits == [1.0, 4.0]
    assert store.newest_valid() == good


def test_what_no_second_try_mends_is_told_at_once(store: CheckpointStore, monkeypatch) -> None:
    failing = Failing(store, [PermissionError("not yours")])
    with pytest.raises(StorageError, match="PermissionError: not yours"):
        store.save(state(1), 1)

    def cannot(*_: object) -> None:
        raise pickle.PicklingError("no")

    monkeypatch.setattr(torch, "save", cannot)
    with pytest.raises(CheckpointError, match="could not be written: PicklingError: no") as raised:
        store.save(state(1), 1)
    assert not isinstance(raised.value, StorageError), "the script's state is at fault"
    assert failing.waits == []


class Unreadable:
    """A file system of which the `failing` calls of a method fail, by number; `waits`: seconds after each."""

    def __init__(
        self, store: CheckpointStore, call: str, failing: Container[int], error: type[OSError] = ConnectionError
    ) -> None:
        self._fs, self._call, self._failing, self._error = store._fs, call, failing, error
        self._calls = 0
        self.waits: list[float] = []
        store._fs, store._sleep = self, self.waits.append

    def __getattr__(self, name: str) -> Any:
        if name == self._call:
            self._calls += 1
            if self._calls in self._failing:
                return self._fail
        return getattr(self._fs, name)

    def _fail(self, *args: object, **options: object) -> Any:
        raise self._error("away")


@pytest.mark.parametrize(
    ("call", "failing"),
    [("ls", (1, 2)), ("cat_file", (1, 2)), ("open", (1, 2)), ("open", (2, 4))],
    ids=["folder", "manifest", "checksum", "data"],
)
def test_storage_that_is_away_for_a_moment_at_a_start_costs_no_progress(
    store: CheckpointStore, call: str, failing: Container[int]
) -> None:
    store.save(state(1), 1)
    newest = store.save(state(2), 2)
    storage = Unreadable(store, call, failing)
    found = store.load_newest()
    assert found is not None
    assert (found[0], storage.waits) == (newest, [1.0, 4.0])


def test_a_checkpoint_that_stays_out_of_reach_gives_way_to_the_one_before(store: CheckpointStore) -> None:
    older, _ = store.save(state(1), 1), store.save(state(2), 2)
    failing = Unreadable(store, "cat_file", (1, 2, 3))
    found = store.load_newest()
    assert found is not None
    assert (found[0], failing.waits) == (older, [1.0, 4.0])


def test_storage_that_stays_away_at_a_start_is_named(store: CheckpointStore) -> None:
    store.save(state(1), 1)
    failing = Unreadable(store, "ls", range(1, 6))
    with pytest.raises(StorageError, match="ConnectionError: away"):
        store.load_newest()
    assert failing.waits == [1.0, 4.0]


@pytest.mark.parametrize("call", ["ls", "cat_file", "open"])
def test_storage_that_may_not_be_read_is_named_at_once(store: CheckpointStore, call: str) -> None:
    store.save(state(1), 1)
    failing = Unreadable(store, call, range(1, 6), PermissionError)
    with pytest.raises(StorageError, match="PermissionError: away"):
        store.load_newest()
    assert failing.waits == []


def test_a_url_without_a_file_system_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"checkpoint.url: 'nonsense://x' cannot be used"):
        CheckpointStore("nonsense://x")
    with pytest.raises(ValueError, match="keep: 0"):
        CheckpointStore("/x", keep=0)


def test_storage_that_cannot_even_be_reached_is_told_in_one_sentence(monkeypatch) -> None:
    def unreachable(url: str) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("fsspec.core.url_to_fs", unreachable)
    with pytest.raises(StorageError, match=r"^checkpoint.url: 's3://c' is out of reach: no route to host$"):
        CheckpointStore("s3://c")


def test_a_foreign_path_is_named(store: CheckpointStore) -> None:
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        store.load("/etc/passwd")


class Level(IntEnum):
    HIGH = 3


class Colour(StrEnum):
    RED = "red"


def test_numpy_and_plain_python_values_survive() -> None:
    value = {
        "array": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "scalar": np.float32(1.5),
        "when": np.datetime64("2026-01-01"),
        "words": np.array(["a", "bc"]),
        "nested": [(1, None, True), {"x", "y"}, b"bytes", math.inf, 1 + 2j],
        "ordered": OrderedDict(b=1, a=2),
        "counted": Counter([1, 1, 2]),
        "level": Level.HIGH,
        "colour": Colour.RED,
        3: torch.tensor([1, 2]),
    }
    import io

    buffer = io.BytesIO()
    torch.save(pack(value), buffer)
    buffer.seek(0)
    back = unpack(torch.load(buffer, weights_only=True))
    np.testing.assert_array_equal(back.pop("array"), value.pop("array"))
    np.testing.assert_array_equal(back.pop("words"), value.pop("words"))
    assert isinstance(back["scalar"], np.float32)
    assert list(back["ordered"]) == ["b", "a"]
    torch.testing.assert_close(back.pop(3), value.pop(3))
    assert back == value


def test_training_state_of_every_kind_survives(store: CheckpointStore) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    schedulers = [
        torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 10),
        torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5]),
        torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
    ]
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    whole = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedulers": [scheduler.state_dict() for scheduler in schedulers],
        "rng": capture_rng(),
    }
    back = store.load(store.save(whole, 1))
    model.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])
    for scheduler, saved in zip(schedulers, back["schedulers"], strict=True):
        scheduler.load_state_dict(saved)
    restore_rng(back["rng"])
    first = (random.random(), np.random.rand(), torch.rand(1).item())  # noqa: NPY002
    restore_rng(whole["rng"])
    assert first == (random.random(), np.random.rand(), torch.rand(1).item())  # noqa: NPY002


def test_readers_never_meet_a_half_written_or_vanished_checkpoint(tmp_path: Path) -> None:
    store, reader = CheckpointStore(str(tmp_path), keep=1), CheckpointStore(str(tmp_path))
    store.save(state(0), 0)
    writer = threading.Thread(target=lambda: [store.save(state(i), i) for i in range(1, 60)])
    writer.start()
    seen = []
    while writer.is_alive():
        found = reader.load_newest()
        assert found is not None
        assert found[1]["weights"][0] == found[1]["steps"]
        seen.append(found[1]["steps"])
    writer.join()
    assert seen == sorted(seen)


def test_killed_at_any_moment_of_writing_the_newest_checkpoint_loads(tmp_path: Path) -> None:
    """SIGKILL at 24 random moments, in runs that each continue from what the last one left."""
    rng, store, last = random.Random(0), CheckpointStore(str(tmp_path)), 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # One interpreter is started and every victim forked from it: importing torch 24 times would take minutes.
    launcher = (
        "import os, sys, torch, signal\nfrom coadapt.executor.training.state.checkpoint import CheckpointStore\n"
        "writer = sys.argv[2]\n"
        "for line in sys.stdin:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        exec(compile(writer, 'writer', 'exec'), {})\n"
        "    os.waitpid(pid, 0)\n"
        "    print('gone', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", launcher, str(tmp_path), WRITER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for _ in range(24):
            process.stdin.write("start\n")
            process.stdin.flush()
            pid = int(process.stdout.readline())
            time.sleep(rng.uniform(0.0, 0.06))  # the random moment, not a wait for anything
            os.kill(pid, signal.SIGKILL)
            assert process.stdout.readline() == "gone\n"
            found = store.load_newest()
            assert found is not None or last == 0
            if found is not None:
                assert found[1]["steps"] >= last, "a published checkpoint was lost"
                assert torch.equal(found[1]["data"], torch.full((200_000,), float(found[1]["steps"])))
                last = found[1]["steps"]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert last > 0
