"""Durable state of a job: checkpoints that are whole or not there.

A checkpoint is a data file and a small manifest beside it with the data's size and SHA-256. The data is written,
flushed to disk and read back. Then the manifest appears in one atomic step.
Only a checkpoint with a manifest exists. Older ones are removed only after that, manifest first. So at any
instant the newest manifest names a checkpoint that was whole when it was published.
A checkpoint that rotted since fails its checksum, and the one before it is used. Several processes may read
while one writes. Any fsspec URL will do.

Of a sharded model, the data file has no shards. These lie in a folder beside it, and the manifest has their
sizes and SHA-256, too. Each process wrote its own and read them back before the manifest appeared.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, TypeVar, cast

import fsspec
import torch
import torch.distributed as dist
from torch import Tensor
from torch.types import Storage

from ....core.checkpoint_name import DATA, MANIFEST, SHARD_FILES, SHARDS, CheckpointName
from .checkpoint_errors import CheckpointError, MomentaryError, StorageError, storage_error, summary
from .hashing_writer import HashingWriter
from .packing import pack, unpack
from .shard_files import INDEX, ShardFiles, read_shards, write_shards

WHOLE, SHARDED = 1, 2  # formats
_CHUNK = 4 << 20
_READERS = 8  # files that are read at a time
RETRY_S = (1.0, 4.0)  # waits before a second and a third try to write or read
_Done = TypeVar("_Done")
Measured = Mapping[str, tuple[int, str]]  # size and SHA-256 of files, by name


class CheckpointStore:
    """The checkpoints of one job in the folder `url`: a path or any fsspec URL.

    The newest `keep` are kept. Data files without a manifest that are older than `stale_s` belong to writers
    that died; the next save removes them.
    Raises CheckpointError for a URL that no installed file system serves, and StorageError for one that is out
    of reach.
    """

    def __init__(
        self, url: str, keep: int = 2, stale_s: float = 1800.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep: {keep}; at least 1 checkpoint is kept")
        self.url, self.keep, self.stale_s, self._sleep = url, keep, stale_s, sleep
        try:
            self._fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise CheckpointError(f"checkpoint.url: {url!r} cannot be used: {error}") from error
        except OSError as error:
            raise StorageError(f"checkpoint.url: {url!r} is out of reach: {error}") from error
        self._root = root.rstrip("/") or "/"
        self._local = "file" in _protocols(self._fs)

    def save(self, state: Mapping[str, Any], steps: int) -> str:
        """Write, verify and publish `state` after `steps` optimizer steps; returns the checkpoint's path.

        Raises StorageError where it cannot be written, and CheckpointError where it holds a value that a
        checkpoint cannot hold. What was there before is untouched then. Storage that fails is tried again for
        some seconds.
        """
        packed = pack(state)
        return self.patiently(lambda: self.publish(self.new_name(steps), packed))

    def patiently(self, do: Callable[[], _Done]) -> _Done:
        """Do something, and again some seconds later where storage fails for a moment."""
        for wait_s in RETRY_S:
            try:
                return do()
            except MomentaryError:
                self._sleep(wait_s)
        return do()

    def new_name(self, steps: int) -> CheckpointName:
        return CheckpointName(steps, time.time_ns() // 1_000_000, uuid.uuid4().hex[:12])

    def write_shards(
        self, entry: CheckpointName, tensors: Mapping[str, Tensor], group: dist.ProcessGroup
    ) -> Measured:
        """Write and verify this process's shards; return what it wrote. All processes of `group` call this.

        Raises as `save` does; what is not stored as it was written, only this process raises.
        """
        folder, files = self._path(entry, SHARDS), ShardFiles(self._fs, self._local)
        write_shards(files, folder, tensors, group)
        self._check(folder, files.written, MomentaryError(f"checkpoint {folder} was not stored as it was written"))
        return files.written

    def read_shards(
        self, shards: Mapping[str, Any], rooms: Mapping[str, Tensor], group: dist.ProcessGroup | None
    ) -> None:
        """Fill tensors from the shards of a state that was loaded; all processes of `group` call this.

        Raises StorageError and CheckpointError, alike on all of them.
        """
        folder, files = f"{self._root}/{shards['folder']}", ShardFiles(self._fs, self._local)
        self.patiently(lambda: read_shards(files, folder, shards["index"], rooms, group))

    def publish(self, entry: CheckpointName, packed: Any, shards: Measured | None = None) -> str:
        """Write a packed state and publish it as the newest checkpoint, with shards that were verified.

        Raises as `save` does.
        """
        data = self._path(entry, DATA)
        manifest: dict[str, Any] = {"format": WHOLE, "steps": entry.steps}
        if shards:
            manifest |= {"format": SHARDED, SHARD_FILES: shards}
        try:
            self._fs.makedirs(self._root, exist_ok=True)
            size, digest = self._write(data, packed)
            if self._measure(data) != (size, digest):
                raise MomentaryError(f"checkpoint {data} was not stored as it was written")
            if shards and self._local:
                _sync_folder(self._path(entry, SHARDS))
            self._publish(entry, {**manifest, "bytes": size, "sha256": digest})
        except Exception as error:
            self.discard(entry)
            if isinstance(error, CheckpointError):
                raise
            raise storage_error(f"checkpoint {data} could not be written", error) from error
        self._clean(entry)
        return self._outside(entry)

    def discard(self, entry: CheckpointName) -> None:
        """Remove what there is of a checkpoint that was not published."""
        with contextlib.suppress(Exception):  # what stays goes after a later save
            self._remove_data(entry)

    def newest(self) -> str | None:
        """Return the path of the newest published checkpoint, unverified; None without one."""
        entries = self._published()
        return self._outside(entries[-1]) if entries else None

    def newest_valid(self) -> str | None:
        """Return the path of the newest checkpoint whose checksum holds; None without one."""
        for entry in reversed(self._published()):
            with contextlib.suppress(CheckpointError):
                self._verify(entry)
                return self._outside(entry)
        return None

    def load(self, path: str, device: str | torch.device = "cpu") -> dict[str, Any]:
        """Return the state saved under `path`; `read_shards` reads what stands in it as `Stored`.

        Raises StorageError where storage fails, and CheckpointError where the state is missing, torn or corrupt.

        What was on a GPU comes to `device`, and what was on the CPU stays there. Else an optimizer would fetch
        its step counts from the GPU one by one at every step.
        """
        entry = CheckpointName.parse(path.rsplit("/", 1)[-1].removesuffix(DATA))
        if entry is None:
            raise CheckpointError(f"{path} is no checkpoint of {self.url}")
        manifest = self._verify(entry)
        data = self._path(entry, DATA)
        try:
            with self._fs.open(data, "rb") as file:
                state = unpack(torch.load(file, map_location=_to(device), weights_only=True))
            index = self._fs.cat_file(f"{self._path(entry, SHARDS)}/{INDEX}") if SHARD_FILES in manifest else None
        except FileNotFoundError as error:
            raise CheckpointError(f"checkpoint {data} does not exist") from error
        except OSError as error:
            raise storage_error(f"checkpoint {data} cannot be read", error) from error
        except Exception as error:
            raise CheckpointError(f"checkpoint {data} cannot be read: {summary(error)}") from error
        if not isinstance(state, dict):
            raise CheckpointError(f"checkpoint {data} holds a {type(state).__name__} instead of a dict")
        if index is not None:
            state[SHARD_FILES] = {"folder": f"{entry.stem}{SHARDS}", "index": index}
        return state

    def load_newest(self, device: str | torch.device = "cpu") -> tuple[str, dict[str, Any]] | None:
        """Return path and state of the newest checkpoint that loads; None where there is none at all.

        Storage that fails is tried again for some seconds, before an older checkpoint is taken. Raises
        StorageError where it stays away, and CheckpointError where there are checkpoints and none loads: starting
        anew would throw them away.
        """
        for wait_s in RETRY_S:
            try:
                return self._load_newest(device, patient=True)
            except MomentaryError:
                self._sleep(wait_s)
        return self._load_newest(device, patient=False)

    def _load_newest(self, device: str | torch.device, patient: bool) -> tuple[str, dict[str, Any]] | None:
        """Do so once. `patient`: raise a storage's error instead of passing a checkpoint over.

        This looks again when everything it saw was gone, since a writer may have replaced it.
        """
        seen: list[CheckpointName] = []
        while True:
            entries = self._published()
            error: CheckpointError | None = None
            for entry in reversed(entries):
                path = self._outside(entry)
                try:
                    return path, self.load(path, device)
                except CheckpointError as failure:
                    if patient and isinstance(failure, MomentaryError):
                        raise
                    error = error or failure
            if entries == seen:
                if error is not None:
                    raise error
                return None
            seen = entries

    def _path(self, entry: CheckpointName, suffix: str) -> str:
        return f"{self._root}/{entry.stem}{suffix}"

    def _outside(self, entry: CheckpointName) -> str:
        """Return the path as this store's user writes it."""
        return f"{self.url.rstrip('/')}/{entry.stem}{DATA}"

    def _entries(self) -> tuple[set[CheckpointName], set[CheckpointName]]:
        """Return entries that have a manifest, and entries that have data."""
        self._fs.invalidate_cache(self._root)
        try:
            names = [str(path).rsplit("/", 1)[-1] for path in self._fs.ls(self._root, detail=False)]
        except FileNotFoundError:
            return set(), set()
        except Exception as error:
            raise storage_error(f"checkpoint.url: {self.url!r}", error) from error
        found: dict[str, set[CheckpointName]] = {MANIFEST: set(), DATA: set(), SHARDS: set()}
        for name in names:
            stem, suffix = os.path.splitext(name)
            entry = CheckpointName.parse(stem)
            if entry is not None and suffix in found:
                found[suffix].add(entry)
        return found[MANIFEST], found[DATA] | found[SHARDS]

    def _published(self) -> list[CheckpointName]:
        return sorted(self._entries()[0])

    def _write(self, path: str, state: Any) -> tuple[int, str]:
        """Return size and SHA-256 of what was written. Raises CheckpointError where the state is at fault."""
        with self._fs.open(path, "wb") as file:
            writer = HashingWriter(file)
            try:
                torch.save(state, cast(IO[bytes], writer))
            except Exception as error:
                if writer.failure is not None:
                    raise writer.failure from None
                raise CheckpointError(f"checkpoint {path} could not be written: {summary(error)}") from error
            file.flush()
            if self._local:
                os.fsync(file.fileno())
        return writer.measured

    def _measure(self, path: str) -> tuple[int, str]:
        """Return size and SHA-256 of what is stored."""
        size, digest = 0, hashlib.sha256()
        with self._fs.open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                size += len(chunk)
                digest.update(chunk)
        return size, digest.hexdigest()

    def _publish(self, entry: CheckpointName, manifest: Mapping[str, Any]) -> None:
        content = json.dumps(manifest).encode()
        final = self._path(entry, MANIFEST)
        if not self._local:
            self._fs.pipe_file(final, content)  # object stores show a file only once it is whole
            return
        beside = self._path(entry, ".manifest")
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, final)
        _sync_folder(self._root)

    def _verify(self, entry: CheckpointName) -> dict[str, Any]:
        """Return the manifest of a checkpoint whose files are as they were written. Raises as `load` does."""
        data = self._path(entry, DATA)
        try:
            manifest: dict[str, Any] = json.loads(self._fs.cat_file(self._path(entry, MANIFEST)))
            expected = (manifest["bytes"], manifest["sha256"])
            version = manifest["format"]
            shards = {name: (size, digest) for name, (size, digest) in manifest.get(SHARD_FILES, {}).items()}
            stored = self._measure(data)
        except FileNotFoundError as error:
            raise CheckpointError(f"checkpoint {data} does not exist") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # a torn manifest
            raise CheckpointError(f"checkpoint {data} cannot be read: {summary(error)}") from error
        except Exception as error:
            raise storage_error(f"checkpoint {data} cannot be read", error) from error
        if version not in (WHOLE, SHARDED):
            raise CheckpointError(
                f"checkpoint {data} has format {version}; this version reads {WHOLE} and {SHARDED}"
            )
        corrupt = CheckpointError(f"checkpoint {data} is corrupt: its checksum does not match its manifest")
        if stored != expected:
            raise corrupt
        self._check(self._path(entry, SHARDS), shards, corrupt)
        return manifest

    def _check(self, folder: str, files: Measured, failure: CheckpointError) -> None:
        """Measure files, several at a time. Raises `failure` where one is another one, and as `load` does."""
        try:
            with ThreadPoolExecutor(_READERS) as threads:
                found = list(threads.map(self._measure, [f"{folder}/{name}" for name in files]))
        except FileNotFoundError as error:
            raise CheckpointError(f"checkpoint {folder} is not complete: {summary(error)}") from error
        except Exception as error:
            raise storage_error(f"checkpoint {folder} cannot be read", error) from error
        if found != list(files.values()):
            raise failure

    def _clean(self, newest: CheckpointName) -> None:
        """Remove what is beyond `keep`, and what dead writers left. `newest` was just verified and stays."""
        with contextlib.suppress(Exception):  # a file that cannot be removed now goes after the next save
            published, data = self._entries()
            older = sorted(entry for entry in published if entry != newest)
            surplus = older[: max(len(older) - (self.keep - 1), 0)]
            for entry in surplus:
                self._remove(self._path(entry, MANIFEST))
                self._remove_data(entry)
            stale_ms = newest.created_ms - self.stale_s * 1000
            for entry in data - published:
                if entry.created_ms < stale_ms:
                    self._remove(self._path(entry, ".manifest"))
                    self._remove_data(entry)

    def _remove_data(self, entry: CheckpointName) -> None:
        self._remove(self._path(entry, DATA))
        folder = self._path(entry, SHARDS)
        if self._fs.exists(folder):
            self._fs.rm(folder, recursive=True)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(path)


def _protocols(fs: Any) -> tuple[str, ...]:
    protocol = fs.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _sync_folder(path: str) -> None:
    """Make a rename in `path` durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _to(device: str | torch.device) -> Callable[[Storage, str], Storage]:
    """Return a `map_location` for `torch.load`, which calls it with a storage and the device it was saved from."""
    return lambda storage, location: torch.serialization.default_restore_location(
        storage, location if location == "cpu" else str(device)
    )
