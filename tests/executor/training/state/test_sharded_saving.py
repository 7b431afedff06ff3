"""The processes of a sharded replica save what each of them has, and any number of processes goes on from it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # the first optimizer of each forked process would import it
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.protocol.messages import CHECKPOINT_URL, Join
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.collective.sharded_group import ShardedGroup
from coadapt.executor.training.gradients.gradient_noise import GradientNoise
from coadapt.executor.training.sessions.session_checkpoints import SessionCheckpoints
from coadapt.executor.training.sharding.shards import ReplicaLost, Shards
from coadapt.executor.training.sharding.states import changed
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.executor.training.state.checkpoint_errors import CheckpointError, StorageError
from coadapt.executor.training.state.prepared import identify
from coadapt.executor.training.state.training_state import OtherScriptError, Position, TrainingState
from torch import Tensor, nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

Shape = tuple[int, int] | None  # processes of FSDP and of tensor parallelism; None: no shards
WIDTH = 40


class Told(list[Any]):
    """Be the channel to an executor."""

    def send(self, event: Any) -> None:
        self.append(event)


class Replica:
    """A script's model and Adam in one of the processes of a replica, and what saves and restores them."""

    def __init__(self, shape: Shape, url: str, group: Group, *, width: int = WIDTH, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(5, width), nn.GELU(), nn.Linear(width, 7), nn.Linear(7, 1))
        self.shards = None
        self.group: Group = group
        if shape is not None:
            self.shards = Shards(group.rank, group.world_size)
            self.group = ShardedGroup(
                Join(1, group.rank, group.world_size, 1, 0, 1, "", 0), group.device, self.shards
            )
            mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor"))
            if shape[1] > 1:
                parallelize_module(self.model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
            fully_shard(self.model, mesh=mesh["data"])
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.zeros(4, 5)), 2)
        prepared = identify([self.model, self.optimizer, loader], self.shards)
        self.average: list[Tensor] = []  # that the script keeps beside its model
        self.state = TrainingState(prepared, GradientNoise(), Position(steps=7))
        self.state.extras["variables"] = lambda: {"average": self.average}, self.take_over
        os.environ[CHECKPOINT_URL] = url
        self.told = Told()
        self.checkpoints = SessionCheckpoints(TrainingConfig(), self.state, self.told, self.shards)
        assert self.checkpoints.store is not None
        self.store: CheckpointStore = self.checkpoints.store

    def train(self) -> None:
        for step in range(2):
            generator = torch.Generator().manual_seed(step)
            self.model(torch.randn(6, 5, generator=generator)).square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.average = [parameter.detach().clone() for parameter in self.model.parameters()]

    def take_over(self, variables: dict[str, Any]) -> None:
        self.average = variables["average"]

    def restore(self) -> None:
        """Go on from the newest checkpoint, as a job that starts does."""
        found = self.store.load_newest()
        assert found is not None
        self.state.apply(self.checkpoints.filled(found[1], self.group), 0)

    def whole(self) -> Any:
        """Return parameters, Adam's state and averages, whole."""

        def gathered(tensor: Tensor, _: object) -> Tensor:
            return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.clone()

        parts = self.model.state_dict(), self.optimizer.state_dict()["state"], self.average
        return [changed(part, Tensor, gathered) for part in parts]


def saved(shape: Shape, url: str, times: int = 1) -> Any:
    """Save a trained replica; return its whole state."""

    def act(group: Group) -> Any:
        replica = Replica(shape, url, group)
        replica.train()
        for _ in range(times):
            replica.checkpoints.save()
        return replica.whole()

    return on_processes(shape, act)[0]


def on_processes(shape: Shape, act: Callable[[Group], Any], **how: Any) -> list[Any]:
    from tests.support.ranks import on_ranks  # forked processes forget this test's other imports

    return on_ranks(1 if shape is None else shape[0] * shape[1], act, **how)


def names(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((2, 1), (3, 1)),
        ((3, 1), None),
        (None, (2, 1)),
        ((2, 2), (3, 1)),
        ((2, 1), (2, 2)),
        ((1, 1), (4, 1)),
    ],
    ids=str,
)
def test_other_numbers_of_processes_go_on_with_the_very_same_state(
    tmp_path: Path, before: Shape, after: Shape
) -> None:
    expected = saved(before, str(tmp_path))

    def act(group: Group) -> Any:
        replica = Replica(after, str(tmp_path), group, seed=1)
        replica.restore()
        assert replica.state.position.steps == 7
        return replica.whole()

    for found in on_processes(after, act):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("url", ["dir::file://{}", "{}"], ids=["another file system", "a path"])
def test_a_checkpoint_is_told_by_one_process_and_lies_where_the_url_says(tmp_path: Path, url: str) -> None:
    def act(group: Group) -> Any:
        replica = Replica((2, 1), url.format(tmp_path), group)
        replica.train()
        path = replica.checkpoints.save()
        assert replica.store.newest_valid() is not None
        before = replica.whole()
        replica.train()
        replica.restore()
        torch.testing.assert_close(replica.whole(), before, rtol=0, atol=0)
        return path is not None, len(replica.told)

    assert on_processes((2, 1), act) == [(True, 1), (False, 0)]
    (manifest,) = tmp_path.rglob("*.json")
    assert names(manifest.parent) == [".json", ".pt", ".shards"]


class Largest(TorchDispatchMode):
    """Note the elements of the largest tensor that is made; what processes tell each other is bytes."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor) and not isinstance(made, DTensor) and made.is_floating_point():
            self.elements = max(self.elements, made.numel())
        return made


@pytest.mark.parametrize("shape", [(4, 1), (2, 2)], ids=str)
def test_no_process_has_more_of_a_tensor_than_its_own_shard(tmp_path: Path, shape: tuple[int, int]) -> None:
    def act(group: Group) -> tuple[int, int]:
        replica = Replica(shape, str(tmp_path), group, width=4000)
        replica.train()
        with Largest() as largest:
            replica.checkpoints.save()
            replica.restore()
        own = max(parameter._local_tensor.numel() for parameter in replica.model.parameters())
        return largest.elements, own

    for largest, own in on_processes(shape, act):
        assert 0 < largest <= own
    (folder,) = tmp_path.glob("*.shards")
    sizes = [file.stat().st_size for file in folder.glob("*.distcp")]
    assert len(sizes) == 4
    assert max(sizes) < 0.3 * sum(sizes)


def test_the_newest_are_kept_with_their_shards(tmp_path: Path) -> None:
    saved((2, 1), str(tmp_path), times=4)
    assert names(tmp_path) == [".json", ".json", ".pt", ".pt", ".shards", ".shards"]


def test_shards_are_in_the_form_that_torch_reads(tmp_path: Path) -> None:
    model, _, _ = saved((2, 1), str(tmp_path / "a"))
    (folder,) = (tmp_path / "a").glob("*.shards")
    dcp_to_torch_save(folder, tmp_path / "all.pt")
    found = torch.load(tmp_path / "all.pt")
    torch.testing.assert_close({name: found[f"models.0.{name}"] for name in model}, dict(model))


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("harm", [cut_short, flip, Path.unlink])
@pytest.mark.parametrize("name", ["__1_0.distcp", ".metadata"])
def test_a_checkpoint_with_a_bad_shard_gives_way_to_the_one_before(
    tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    saved((2, 1), str(tmp_path), times=2)
    store = CheckpointStore(str(tmp_path))
    bad = store.newest()
    assert bad is not None
    harm(Path(bad.replace(".pt", ".shards")) / name)
    good = store.newest_valid()
    assert good not in (None, bad)
    found = store.load_newest()
    assert found is not None
    assert found[0] == good
    with pytest.raises(CheckpointError, match=r"^checkpoint \S+ is (corrupt: its checksum|not complete: File)"):
        store.load(bad)


class Storage:
    """A file system in which a process meets `what`, once, when it opens the second process's shards."""

    def __init__(self, store: CheckpointStore, what: Callable[[], None], mode: str = "wb") -> None:
        self._fs, self._what, self._mode = store._fs, what, mode
        self.waits: list[float] = []
        store._fs, store._sleep = self, self.waits.append

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, mode: str) -> Any:
        if mode == self._mode and path.endswith("__1_0.distcp"):
            self._mode = ""
            self._what()
        return self._fs.open(path, mode)


def test_a_process_that_is_lost_while_it_saves_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    def act(group: Group) -> list[str | None]:
        replica = Replica((2, 1), str(tmp_path), group)
        replica.train()
        good = replica.checkpoints.save()
        Storage(replica.store, lambda: os._exit(1))
        with pytest.raises(ReplicaLost):
            replica.checkpoints.save()
        return [good, replica.store.newest_valid()]

    ((good, newest),) = on_processes((2, 1), act, lost={1})
    assert newest == good
    assert len(list(tmp_path.glob("*.shards"))) == 2
    CheckpointStore(str(tmp_path), stale_s=-60).save({}, 8)
    assert len(list(tmp_path.glob("*.shards"))) == 1, "what the lost ones had begun is gone"


@pytest.mark.parametrize(
    ("error", "waits"), [(ConnectionError("away"), [1.0]), (PermissionError("not yours"), [])], ids=repr
)
def test_storage_that_fails_one_process_fails_all_alike(
    tmp_path: Path, error: Exception, waits: list[float]
) -> None:
    def fail() -> None:
        raise error

    def act(group: Group) -> tuple[list[float], str]:
        replica = Replica((2, 1), str(tmp_path), group)
        replica.train()
        storage = Storage(replica.store, fail)
        try:
            replica.checkpoints.save()
        except StorageError as failed:
            return storage.waits, str(failed)
        return storage.waits, ""

    first, second = on_processes((2, 1), act)
    assert first == second
    assert first[0] == waits
    if waits:
        assert names(tmp_path) == [".json", ".pt", ".shards"], "nothing is left of the first try"
    else:
        assert first[1].endswith("__1_0.distcp could not be written: PermissionError: not yours")
        assert names(tmp_path) == []


def test_storage_that_is_away_for_a_moment_while_shards_are_read_costs_no_progress(tmp_path: Path) -> None:
    expected = saved((2, 1), str(tmp_path))

    def fail() -> None:
        raise ConnectionError("away")

    def act(group: Group) -> tuple[list[float], Any]:
        replica = Replica((2, 1), str(tmp_path), group, seed=1)
        found = replica.store.load_newest()
        assert found is not None
        storage = Storage(replica.store, fail, "rb" if group.rank else "")
        replica.state.apply(replica.checkpoints.filled(found[1], replica.group), 0)
        return storage.waits, replica.whole()

    for waits, found in on_processes((2, 1), act):
        assert waits == [1.0]
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_what_a_checkpoint_cannot_hold_is_told_before_anything_is_written(tmp_path: Path) -> None:
    def act(group: Group) -> str:
        replica = Replica((2, 1), str(tmp_path), group)
        if group.rank == 1:
            replica.state.extras["more"] = lambda: object(), lambda _: None
        with pytest.raises(CheckpointError) as refused:
            replica.checkpoints.save()
        return str(refused.value)

    first, second = on_processes((2, 1), act)
    assert first == second
    assert first.startswith("state['more'] is a builtins.object, which a checkpoint cannot hold")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("after", [(2, 1), None], ids=str)
def test_another_model_is_one_sentence(tmp_path: Path, after: Shape) -> None:
    saved((2, 1), str(tmp_path))

    def act(group: Group) -> str:
        replica = Replica(after, str(tmp_path), group, width=30)
        with pytest.raises(OtherScriptError) as refused:
            replica.restore()
        return str(refused.value)

    for said in on_processes(after, act):
        assert said.startswith("checkpoint: does not fit the script; ")
        assert "0.weight is 40x5 in the checkpoint and 30x5 in the script" in said
        assert "\n" not in said


def test_more_optimizers_than_the_script_has_are_refused(tmp_path: Path) -> None:
    def act(group: Group) -> str:
        replica = Replica((2, 1), str(tmp_path), group)
        state = replica.state.capture()
        with pytest.raises(OtherScriptError) as refused:
            replica.state.apply({**state, "optimizers": state["optimizers"] * 2}, 0)
        return str(refused.value)

    said = on_processes((2, 1), act)[0]
    assert said.startswith("checkpoint: holds 2 optimizers, the script prepares 1; ")


def test_no_code_runs_from_an_index_of_shards(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    def act(group: Group) -> str:
        replica = Replica((2, 1), str(tmp_path / "c"), group)
        room = {"x": torch.zeros(3)}
        with pytest.raises(CheckpointError) as refused:
            replica.store.read_shards({"folder": "f", "index": pickle.dumps(Harmful())}, room, None)
        return str(refused.value)

    assert "an index of shards has no posix.mkdir" in on_processes((2, 1), act)[0]
    assert not (tmp_path / "ran").exists()
