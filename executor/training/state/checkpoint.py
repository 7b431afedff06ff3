"""Durable state of a job: checkpoints that are whole or not there.

A checkpoint is a data file and a small manifest beside it with the data's size and SHA-256. The data is written,
flushed to disk and read back. Then the manifest appears in one atomic step.
Only a checkpoint with a manifest exists. Older ones are removed only after that, manifest first. So at any
instant the newest manifest names a checkpoint that was whole when it was published.
A checkpoint that rotted since fails its checksum, and the one before it is used. Several processes may read
while one writes. Any fsspec URL will do.

States are loaded without running code from the file (`torch.load(weights_only=True)`). So they hold tensors,
plain Python values and containers of them; numpy arrays and scalars are packed on the way.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

import fsspec
import numpy as np
import torch
from torch.types import Storage

from ....core.checkpoint_name import CheckpointName

FORMAT = 1
_CHUNK = 4 << 20
RETRY_S = (1.0, 4.0)  # waits before a second and a third try to write or read
# No second try mends these.
_LASTING = (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)
_PACKED = "__coadapt_packed__"  # key of a dict that stands for a value which torch.load would not take


class CheckpointError(RuntimeError):
    """Raised where a checkpoint could not be written or read; the message is one sentence for a person."""


class StorageError(CheckpointError):
    """Raised where the storage failed, and neither the script nor what is stored is at fault."""


class _MomentaryError(StorageError):
    """Raised where the storage failed in a way that may last only a moment."""


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
        for wait_s in RETRY_S:
            try:
                return self._save(packed, steps)
            except _MomentaryError:
                self._sleep(wait_s)
        return self._save(packed, steps)

    def _save(self, packed: Any, steps: int) -> str:
        entry = CheckpointName(steps, time.time_ns() // 1_000_000, uuid.uuid4().hex[:12])
        data = self._path(entry, ".pt")
        try:
            self._fs.makedirs(self._root, exist_ok=True)
            size, digest = self._write(data, packed)
            if self._measure(data) != (size, digest):
                raise _MomentaryError(f"checkpoint {data} was not stored as it was written")
            self._publish(entry, {"format": FORMAT, "steps": steps, "bytes": size, "sha256": digest})
        except Exception as error:
            with contextlib.suppress(Exception):
                self._fs.rm_file(data)
            if isinstance(error, CheckpointError):
                raise
            raise _storage_error(f"checkpoint {data} could not be written", error) from error
        self._clean(entry)
        return self._outside(entry)

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
        """Return the state saved under `path`.

        Raises StorageError where storage fails, and CheckpointError where the state is missing, torn or corrupt.

        What was on a GPU comes to `device`, and what was on the CPU stays there. Else an optimizer would fetch
        its step counts from the GPU one by one at every step.
        """
        entry = CheckpointName.parse(path.rsplit("/", 1)[-1].removesuffix(".pt"))
        if entry is None:
            raise CheckpointError(f"{path} is no checkpoint of {self.url}")
        self._verify(entry)
        data = self._path(entry, ".pt")
        try:
            with self._fs.open(data, "rb") as file:
                state = unpack(torch.load(file, map_location=_to(device), weights_only=True))
        except FileNotFoundError as error:
            raise CheckpointError(f"checkpoint {data} does not exist") from error
        except OSError as error:
            raise _storage_error(f"checkpoint {data} cannot be read", error) from error
        except Exception as error:
            raise CheckpointError(f"checkpoint {data} cannot be read: {_summary(error)}") from error
        if not isinstance(state, dict):
            raise CheckpointError(f"checkpoint {data} holds a {type(state).__name__} instead of a dict")
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
            except _MomentaryError:
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
                    if patient and isinstance(failure, _MomentaryError):
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
        return f"{self.url.rstrip('/')}/{entry.stem}.pt"

    def _entries(self) -> tuple[set[CheckpointName], set[CheckpointName]]:
        """Return entries that have a manifest, and entries that have data."""
        self._fs.invalidate_cache(self._root)
        try:
            names = [str(path).rsplit("/", 1)[-1] for path in self._fs.ls(self._root, detail=False)]
        except FileNotFoundError:
            return set(), set()
        except Exception as error:
            raise _storage_error(f"checkpoint.url: {self.url!r}", error) from error
        found: dict[str, set[CheckpointName]] = {".json": set(), ".pt": set()}
        for name in names:
            stem, suffix = os.path.splitext(name)
            entry = CheckpointName.parse(stem)
            if entry is not None and suffix in found:
                found[suffix].add(entry)
        return found[".json"], found[".pt"]

    def _published(self) -> list[CheckpointName]:
        return sorted(self._entries()[0])

    def _write(self, path: str, state: Any) -> tuple[int, str]:
        """Return size and SHA-256 of what was written. Raises CheckpointError where the state is at fault."""
        with self._fs.open(path, "wb") as file:
            writer = _HashingWriter(file)
            try:
                torch.save(state, cast(IO[bytes], writer))
            except Exception as error:
                if writer.failure is not None:
                    raise writer.failure from None
                raise CheckpointError(f"checkpoint {path} could not be written: {_summary(error)}") from error
            file.flush()
            if self._local:
                os.fsync(file.fileno())
        return writer.size, writer.hash.hexdigest()

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
        final = self._path(entry, ".json")
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

    def _verify(self, entry: CheckpointName) -> None:
        data = self._path(entry, ".pt")
        try:
            manifest = json.loads(self._fs.cat_file(self._path(entry, ".json")))
            expected = (manifest["bytes"], manifest["sha256"])
            version = manifest["format"]
            stored = self._measure(data)
        except FileNotFoundError as error:
            raise CheckpointError(f"checkpoint {data} does not exist") from error
        except (ValueError, KeyError, TypeError) as error:  # a torn manifest
            raise CheckpointError(f"checkpoint {data} cannot be read: {_summary(error)}") from error
        except Exception as error:
            raise _storage_error(f"checkpoint {data} cannot be read", error) from error
        if version != FORMAT:
            raise CheckpointError(f"checkpoint {data} has format {version}; this version reads {FORMAT}")
        if stored != expected:
            raise CheckpointError(f"checkpoint {data} is corrupt: its checksum does not match its manifest")

    def _clean(self, newest: CheckpointName) -> None:
        """Remove what is beyond `keep`, and what dead writers left. `newest` was just verified and stays."""
        with contextlib.suppress(Exception):  # a file that cannot be removed now goes after the next save
            published, data = self._entries()
            older = sorted(entry for entry in published if entry != newest)
            surplus = older[: max(len(older) - (self.keep - 1), 0)]
            for entry in surplus:
                self._remove(self._path(entry, ".json"))
                self._remove(self._path(entry, ".pt"))
            stale_ms = newest.created_ms - self.stale_s * 1000
            for entry in data - published:
                if entry.created_ms < stale_ms:
                    self._remove(self._path(entry, ".manifest"))
                    self._remove(self._path(entry, ".pt"))

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(path)


class _HashingWriter(io.RawIOBase):
    """Passes bytes on to a file, and keeps their count and SHA-256."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.size, self.hash = file, 0, hashlib.sha256()
        self.failure: Exception | None = None  # the file's error, which torch.save hides behind one of its own

    def write(self, data: Any) -> int:
        try:
            self._file.write(data)
        except Exception as error:
            self.failure = self.failure or error
            raise
        self.hash.update(data)
        self.size += len(data)
        return len(data)

    def writable(self) -> bool:
        return True


def pack(value: Any, where: str = "state") -> Any:
    """Return `value` in types that torch.load takes with weights_only.

    numpy values and plain subclasses are converted. Raises CheckpointError that names the place of any other
    value.
    """
    if value is None or isinstance(value, torch.Tensor):
        return value
    kind = type(value)
    if kind in (bool, int, float, str, bytes, complex, torch.Size, torch.dtype, torch.device):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _pack_numpy(value, where)
    if isinstance(value, Mapping):
        return _pack_mapping(value, where)
    if isinstance(value, list):
        return [pack(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return tuple(pack(item, f"{where}[{i}]") for i, item in enumerate(value))
    if isinstance(value, set | frozenset):
        items = [pack(item, f"{where}{{…}}") for item in value]
        return {_PACKED: "frozenset" if isinstance(value, frozenset) else "set", "data": items}
    # The value of an Enum member or the like counts, whatever it prints as.
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return str.__str__(value)
    raise CheckpointError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot hold; "
        "save tensors, arrays and plain Python values, such as its state_dict()"
    )


def unpack(value: Any) -> Any:
    """Return what `pack` was given."""
    if isinstance(value, dict):
        if _PACKED in value:
            return _unpack_marked(value)
        items = ((unpack(key), unpack(item)) for key, item in value.items())
        if type(value) is dict:
            return dict(items)
        return Counter(dict(items)) if isinstance(value, Counter) else OrderedDict(items)
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if type(value) is tuple:
        return tuple(unpack(item) for item in value)
    return value


def _pack_mapping(value: Mapping[Any, Any], where: str) -> Any:
    items = {_pack_key(key, where): pack(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, Counter):
        return Counter(items)
    return OrderedDict(items) if isinstance(value, OrderedDict) else items


def _pack_key(key: Any, where: str) -> Any:
    if isinstance(key, np.generic):
        return key.item()
    packed = pack(key, f"key of {where}")
    if packed == _PACKED or isinstance(packed, dict):
        raise CheckpointError(f"{where} has the key {key!r}, which a checkpoint cannot hold")
    return packed


def _pack_numpy(value: Any, where: str) -> dict[str, Any]:
    buffer = io.BytesIO()
    try:
        np.save(buffer, value, allow_pickle=False)
    except ValueError as error:
        raise CheckpointError(f"{where} is a numpy array of objects, which a checkpoint cannot hold") from error
    return {_PACKED: "scalar" if isinstance(value, np.generic) else "array", "data": buffer.getvalue()}


def _unpack_marked(value: Mapping[str, Any]) -> Any:
    kind, data = value[_PACKED], value["data"]
    if kind in ("set", "frozenset"):
        items = [unpack(item) for item in data]
        return set(items) if kind == "set" else frozenset(items)
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array[()] if kind == "scalar" else array


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


def _storage_error(what: str, error: Exception) -> StorageError:
    kind = StorageError if isinstance(error, _LASTING) else _MomentaryError
    return kind(f"{what}: {_summary(error)}")


def _summary(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
