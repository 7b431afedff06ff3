"""A job's output folder on one machine, kept in step with its place beside the job's checkpoints.

The place is any fsspec URL. Each machine that the job ran on writes a manifest of what it has sent, beside the
files: whatever a machine sent last counts, and what it removed is gone. Files are sent and fetched one by one,
so that memory stays small; what could not be sent stays on the machine and is sent later.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec

from .output_tree import Entry, Kind, LeftOut, Name, OutputError, entries, entry_of, is_name, shown

MAX_ENTRIES = 100_000


@dataclass(frozen=True)
class Sent:
    """What a machine's manifest says of a name: what was sent when, or that it was removed."""

    at_s: float
    entry: Entry | None


@dataclass
class Pushed:
    """What became of a look through the folder."""

    whole: bool = True  # everything that can be kept has been sent
    sentences: list[str] = field(default_factory=list)


class Place:
    """Outputs beside a job's checkpoints, at any fsspec URL. Raises: OutputError for a URL that none serves."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self.fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise OutputError(f"outputs at {url}: {error}") from error
        self.root = root.rstrip("/")

    def key(self, name: Name) -> str:
        """Where a file's content lies, in letters that every store takes."""
        return f"{self.root}/{quote(os.fsencode('/'.join(name)), safe='/-_.~ @+=,')}"

    def put(self, path: Path, name: Name) -> None:
        """Send a file. A store with folders may still have an empty one of this name."""
        key = self.key(name)
        self.fs.makedirs(key.rpartition("/")[0], exist_ok=True)
        try:
            self.fs.put_file(str(path), key)
        except IsADirectoryError:
            self.fs.rmdir(key)
            self.fs.put_file(str(path), key)

    def manifests(self) -> dict[str, dict[Name, Sent]]:
        """What each machine has sent. Raises: OutputError."""
        folder, _, base = self.root.rpartition("/")
        try:
            self.fs.invalidate_cache(folder)
            found = [str(path).rsplit("/", 1)[-1] for path in self.fs.ls(folder, detail=False)]
            names = [n for n in found if n.startswith(f"{base}.") and n.endswith(".json")]
            return {n[len(base) + 1 : -5]: _parse(self.fs.cat_file(f"{folder}/{n}")) for n in names}
        except FileNotFoundError:
            return {}
        except Exception as error:
            raise OutputError(f"outputs at {self.url} cannot be read: {_first_line(error)}") from error

    def entries(self) -> dict[Name, Entry]:
        """What there is, by the newest word of any machine. Raises: OutputError."""
        return {name: sent.entry for name, sent in _newest(self.manifests().values()).items() if sent.entry}

    def write_manifest(self, machine: str, sent: Mapping[Name, Sent]) -> None:
        rows = [
            [list(name), word.at_s, None if word.entry is None else asdict(word.entry)]
            for name, word in sent.items()
        ]
        self.fs.makedirs(self.root.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(f"{self.root}.{machine}.json", json.dumps(rows).encode())


class Mirror:
    """The folder of one machine. Only one process at a time may call it (`job_folder` has the locks).

    What was sent or fetched last is noted beside the folder.
    """

    def __init__(self, place: Place, folder: Path, machine: str) -> None:
        self.place = place
        self.folder = folder
        self.machine = machine
        self._note = folder.with_name(f"{folder.name}.json")
        self.base: dict[Name, Entry] = _entries_of(self._note)

    def pull(self) -> None:
        """Fetch what other machines have sent since, and remove what they removed. Raises: OutputError.

        A file that is newer here stays: it has not been sent yet.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = _newest(self.place.manifests().values())
        try:
            new = {name: sent.entry for name, sent in there.items() if sent.entry != self.base.get(name)}
            # What was a folder may have become a file.
            for name, entry in sorted(new.items(), key=lambda item: item[1] is not None):
                if self._newer_here(name, entry):
                    continue
                if entry is None:
                    self._remove(name)
                    self.base.pop(name, None)
                else:
                    self._fetch(name, entry)
                    self.base[name] = entry
        except OutputError:
            raise
        except Exception as error:
            raise OutputError(f"outputs at {self.place.url} cannot be fetched: {_first_line(error)}") from error
        finally:
            self._write_note()

    def push(self, going_on: Callable[[], bool] = lambda: True) -> Pushed:
        """Send what is new or has changed here, and remove what is gone; `going_on` is asked between files."""
        pushed = Pushed()
        found: dict[Name, Entry] = {}
        left = LeftOut()
        for name, entry in entries(self.folder):
            if not entry.kind.is_kept:
                left.add(name, entry.kind)
                continue
            if len(found) >= MAX_ENTRIES:
                pushed.whole = False
                pushed.sentences.append(
                    f"there are more than {MAX_ENTRIES} outputs, which is the most that is kept with checkpoints; "
                    f"the others stay in {self.folder} on {self.machine}: write fewer, larger files"
                )
                break
            found[name] = entry
        pushed.sentences += left.sentences()
        changed = [name for name, entry in found.items() if self.base.get(name) != entry]
        gone = [name for name in self.base if name not in found] if pushed.whole else []
        if not (changed or gone):
            return pushed
        words: dict[Name, Sent] = {}
        try:
            for name in gone:
                with suppress(FileNotFoundError):
                    self.place.fs.rm_file(self.place.key(name))
                words[name] = Sent(time.time(), None)
            for name in changed:
                if not going_on():
                    pushed.whole = False
                    break
                # As it is before it is read: what is written meanwhile is sent the next time.
                with suppress(FileNotFoundError):
                    entry = entry_of(self.folder, self.folder.joinpath(*name))
                    if entry.kind is Kind.FILE:
                        self.place.put(self.folder.joinpath(*name), name)
                    words[name] = Sent(time.time(), entry)
        except Exception as error:
            pushed.whole = False
            pushed.sentences.append(f"outputs could not be sent to {self.place.url}: {_first_line(error)}")
        pushed.whole &= self._publish(words, pushed)
        return pushed

    def _publish(self, words: Mapping[Name, Sent], pushed: Pushed) -> bool:
        """Say what was sent; only then does it count."""
        if not words:
            return True
        try:
            mine = self.place.manifests().get(self.machine, {})
            self.place.write_manifest(self.machine, {**mine, **words})
        except Exception as error:
            pushed.sentences.append(f"outputs could not be sent to {self.place.url}: {_first_line(error)}")
            return False
        for name, word in words.items():
            if word.entry is None:
                self.base.pop(name, None)
            else:
                self.base[name] = word.entry
        self._write_note()
        return True

    # --- one name -------------------------------------------------------------------------------------------

    def _newer_here(self, name: Name, there: Entry | None) -> bool:
        try:
            here = entry_of(self.folder, self.folder.joinpath(*name))
        except OSError:
            return False
        unsent = here != self.base.get(name)
        return unsent and (there is None or here.mtime_ns > there.mtime_ns)

    def _fetch(self, name: Name, entry: Entry) -> None:
        path = self.folder.joinpath(*name)
        if not path.parent.resolve().is_relative_to(self.folder.resolve()):
            raise OutputError(f"{shown('/'.join(name))} lies behind a link that leads out of the outputs")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if entry.kind is Kind.FOLDER:
            path.mkdir(exist_ok=True)
            path.chmod(entry.mode | 0o700)
            return
        beside = self.folder.with_name(f".{self.folder.name}.part")
        beside.unlink(missing_ok=True)
        if entry.kind is Kind.LINK:
            beside.symlink_to(entry.target)
        else:
            self.place.fs.get_file(self.place.key(name), str(beside))
            beside.chmod(entry.mode)
            os.utime(beside, ns=(entry.mtime_ns, entry.mtime_ns))
        beside.replace(path)

    def _remove(self, name: Name) -> None:
        """The file, and folders that are empty without it."""
        path = self.folder.joinpath(*name)
        with suppress(OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            for folder in list(path.parents)[: len(name) - 1]:
                folder.rmdir()

    def _write_note(self) -> None:
        beside = self._note.with_suffix(f".{os.getpid()}.part")
        beside.write_text(json.dumps([[list(name), asdict(entry)] for name, entry in self.base.items()]))
        beside.replace(self._note)


def _newest(manifests: Iterable[Mapping[Name, Sent]]) -> dict[Name, Sent]:
    newest: dict[Name, Sent] = {}
    for manifest in manifests:
        for name, sent in manifest.items():
            if name not in newest or sent.at_s > newest[name].at_s:
                newest[name] = sent
    return dict(sorted(newest.items()))


def _parse(text: bytes) -> dict[Name, Sent]:
    sent = {tuple(name): Sent(at_s, None if row is None else _entry(row)) for name, at_s, row in json.loads(text)}
    for name in sent:
        if not is_name(name):
            raise ValueError(f"{name} is no name of a file in a folder")
    return sent


def _entries_of(note: Path) -> dict[Name, Entry]:
    try:
        return {tuple(name): _entry(row) for name, row in json.loads(note.read_text())}
    except (OSError, ValueError):
        return {}


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(**{**row, "kind": Kind(row["kind"])})


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
