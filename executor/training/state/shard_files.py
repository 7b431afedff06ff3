"""The files of a checkpoint's sharded tensors: torch.distributed.checkpoint writes and reads them.

A folder has a file of each process, with the shards that it has, and an index of all tensors. Any fsspec file
system will do. No process has more of a tensor in memory than its own shard, and one of another while it reads.
"""

from __future__ import annotations

import io
import os
import pickle
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata

from ..sharding.shards import ReplicaLost
from .checkpoint_errors import CheckpointError, storage_error, summary
from .hashing_writer import HashingWriter

INDEX = ".metadata"  # torch's name of the file that tells where each shard lies
# What an index consists of; nothing else is made from it, so no code runs from the file.
_KINDS = {
    "torch.distributed.checkpoint.metadata": {
        "Metadata",
        "MetadataIndex",
        "TensorStorageMetadata",
        "ChunkStorageMetadata",
        "TensorProperties",
        "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
}


class ShardFiles(FileSystemBase):
    """What torch's writer and reader ask of a file system: `fs`, any of fsspec.

    written: size and SHA-256 of each file that was written through this, by name.
    Raises StorageError for all that `fs` raises.
    """

    def __init__(self, fs: Any, is_local: bool) -> None:
        self._fs, self._local = fs, is_local
        self.written: dict[str, tuple[int, str]] = {}

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase, None, None]:
        writes = "w" in mode
        with _told(f"checkpoint {path} {'could not be written' if writes else 'cannot be read'}"):
            with self._fs.open(str(path), mode) as file:
                if not writes:
                    yield file
                    return
                writer = HashingWriter(file)
                yield writer
                file.flush()
                if self._local:
                    os.fsync(file.fileno())
            self.written[_name(path)] = writer.measured

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return f"{path}/{suffix}"

    def init_path(self, path: str | os.PathLike[str]) -> str:
        return str(path)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        with _told(f"checkpoint {path} could not be written"):
            self._fs.makedirs(str(path), exist_ok=True)

    def exists(self, path: str | os.PathLike[str]) -> bool:
        with _told(f"checkpoint {path} cannot be read"):
            return bool(self._fs.exists(str(path)))

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        with _told(f"checkpoint {new_path} could not be written"):
            self._fs.mv(str(path), str(new_path))
        self.written[_name(new_path)] = self.written.pop(_name(path))

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        with _told(f"checkpoint {path} could not be removed"):
            self._fs.rm_file(str(path))

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True


def write_shards(
    files: ShardFiles, folder: str, tensors: Mapping[str, Tensor], group: dist.ProcessGroup | None
) -> None:
    """Write what the processes of `group` hold of sharded tensors, each its own; all of them call this.

    Raises CheckpointError, alike on all of them, and ReplicaLost.
    """
    with _of_all(f"checkpoint {folder} could not be written"):
        dcp.save(dict(tensors), storage_writer=_Writer(files, folder), process_group=group)


def read_shards(
    files: ShardFiles, folder: str, index: bytes, rooms: Mapping[str, Tensor], group: dist.ProcessGroup | None
) -> None:
    """Fill tensors, sharded or whole, by what is stored under their names; all processes of `group` call this.

    `group` None: this process reads alone. Raises CheckpointError, alike on all of them, and ReplicaLost.
    """
    reader = _Reader(files, folder, index)
    with _of_all(f"checkpoint {folder} cannot be read"):
        dcp.load(dict(rooms), storage_reader=reader, process_group=group, no_dist=group is None)


class _Writer(FileSystemWriter):
    def __init__(self, files: ShardFiles, folder: str) -> None:
        super().__init__(folder, sync_files=False)  # the files do so themselves
        self.fs, self.path = cast(Any, files), folder


class _Reader(FileSystemReader):
    def __init__(self, files: ShardFiles, folder: str, index: bytes) -> None:
        super().__init__(folder)
        self.fs, self.path, self._index = cast(Any, files), folder, index

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return cast(Metadata, _Index(io.BytesIO(self._index)).load())


class _Index(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        of_torch = module == "torch" and (name == "Size" or isinstance(getattr(torch, name, None), torch.dtype))
        if of_torch or name in _KINDS.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"an index of shards has no {module}.{name}")


@contextmanager
def _told(what: str) -> Generator[None, None, None]:
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise storage_error(what, error) from error


@contextmanager
def _of_all(what: str) -> Generator[None, None, None]:
    """Raise the first of the errors that processes had, which torch tells all of them."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # one process may read alone
            yield
    except CheckpointException as failed:
        error = next(error for _, (error, _) in sorted(failed.failures.items()))
        raise (
            error if isinstance(error, CheckpointError) else CheckpointError(f"{what}: {summary(error)}")
        ) from None
    except RuntimeError as error:
        raise ReplicaLost(str(error)) from None


def _name(path: str | os.PathLike[str]) -> str:
    return str(path).rsplit("/", 1)[-1]
