"""A job's output folder on one machine, mirrored at a place beside the job's checkpoints.

The place is any fsspec URL. Each machine that the job ran on writes a manifest of what it has sent or removed. For
each name the newest entry of any manifest counts. Files are sent and fetched one by one, so that memory stays
small. A file that cannot be sent stays on the machine and is sent later.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec

from ...core.errors import OutputError
from ...core.output_tree import Entry, Kind, LeftOut, Name, entries, entry_of, is_name, shown

MAX_ENTRIES = 100_000
TICK_S = 0.001  # between two entries of one name, at least


@dataclass(frozen=True)
class Sent:
    """Hold a manifest's entry of a name: what was sent when, or None for what was removed."""

    at_s: float
    entry: Entry | None

    @property
    def changed_ns(self) -> int:
        """Return when it last changed, as far as the manifest shows."""
        entry = self.entry
        return entry.mtime_ns if entry is not None and entry.kind is Kind.FILE else int(self.at_s * 1e9)


@dataclass
class Pushed:
    """Report what became of one look through the folder."""

    whole: bool = True  # everything that can be kept has been sent
    sentences: list[str] = field(default_factory=list)


class Place:
    """Read and write outputs at any fsspec URL. Raises: OutputError if no file system serves the URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self.fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise OutputError(f"outputs at {url}: {error}") from error
        self.root = root.rstrip("/")

    def key(self, name: Name) -> str:
        """Return the key of a file's content, in characters that every store takes."""
        return f"{self.root}/{quote(os.fsencode('/'.join(name)), safe='/-_.~ @+=,')}"

    def put(self, path: Path, name: Name) -> None:
        """Send a file; a store with folders may still have an empty folder of this name."""
        key = self.key(name)
        self.fs.makedirs(key.rpartition("/")[0], exist_ok=True)
        try:
            self.fs.put_file(str(path), key)
        except IsADirectoryError:
            self.fs.rmdir(key)
            self.fs.put_file(str(path), key)

    def manifests(self) -> dict[str, dict[Name, Sent]]:
        """Return what each machine has sent. Raises: OutputError."""
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
        """Return what there is, by the newest entry of any machine. Raises: OutputError."""
        return {name: sent.entry for name, sent in _newest(self.manifests().values()).items() if sent.entry}

    def write_manifest(self, machine: str, sent: Mapping[Name, Sent]) -> None:
        rows = [
            [list(name), word.at_s, None if word.entry is None else asdict(word.entry)]
            for name, word in sent.items()
        ]
        self.fs.makedirs(self.root.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(f"{self.root}.{machine}.json", json.dumps(rows).encode())


class Mirror:
    """Keep the folder of one machine and the place alike.

    Only one process at a time may call it (`job_folder` has the locks). A note beside the folder holds what was
    sent or fetched last.
    """

    def __init__(self, place: Place, folder: Path, machine: str) -> None:
        self.place = place
        self.folder = folder
        self.machine = machine
        self._note = folder.with_name(f"{folder.name}.json")
        self.base: dict[Name, Entry] = _entries_of(self._note)

    def pull(self) -> list[str]:
        """Fetch what other machines have sent since, and remove what they removed. Raises: OutputError.

        A file that is newer here stays, since it has not been sent yet. Return a sentence if contents are missing.
        """
        if not self.folder.is_dir():
            # If the whole folder is gone, say by a cleaner of /tmp, the outputs were not removed.
            self.base.clear()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = _newest(self.place.manifests().values())
        missing = LeftOut()
        try:
            new = {name: sent for name, sent in there.items() if sent.entry != self.base.get(name)}
            # Removals come first: a folder may have become a file.
            for name, sent in sorted(new.items(), key=lambda item: item[1].entry is not None):
                if self._newer_here(name, sent):
                    continue
                if sent.entry is None:
                    self._remove(name)
                    self.base.pop(name, None)
                elif self._fetch(name, sent.entry):
                    self.base[name] = sent.entry
                else:
                    missing.add(name, Kind.GONE)
        except OutputError:
            raise
        except Exception as error:
            raise OutputError(f"outputs at {self.place.url} cannot be fetched: {_first_line(error)}") from error
        finally:
            self._write_note()
        return missing.sentences()

    def push(self, going_on: Callable[[], bool] = lambda: True) -> Pushed:
        """Send what is new or has changed here, and remove what is gone; `going_on` is asked between files.

        What is newer elsewhere stays. Raises: OutputError if the folder cannot be read.
        """
        pushed = Pushed()
        found = self._look_through(pushed)
        changed = [name for name, entry in found.items() if self.base.get(name) != entry]
        gone = [name for name in self.base if name not in found] if pushed.whole else []
        if not (changed or gone):
            return pushed
        try:
            manifests = self.place.manifests()
            there = _newest(manifests.values())
            mine = manifests.get(self.machine, {})
            theirs = {name for name in (*gone, *changed) if self._is_theirs(name, there.get(name), mine)}
            older = LeftOut()
            for name in changed:
                if name in theirs:
                    older.add(name, Kind.OLDER)
            pushed.sentences += older.sentences()
            self._remove_there([name for name in gone if name not in theirs], there, mine)
            pushed.whole &= self._send([name for name in changed if name not in theirs], there, mine, going_on)
        except OutputError as error:
            pushed.whole = False
            pushed.sentences.append(str(error))
        except Exception as error:
            pushed.whole = False
            pushed.sentences.append(f"outputs could not be sent to {self.place.url}: {_first_line(error)}")
        return pushed

    def _look_through(self, pushed: Pushed) -> dict[Name, Entry]:
        """Return what there is to keep. Raises: OutputError if the folder is missing, which may not mean empty."""
        if not self.folder.is_dir():
            raise OutputError(f"{self.folder} on {self.machine} is missing; what was sent from it before stays")
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
        return found

    def _is_theirs(self, name: Name, word: Sent | None, mine: Mapping[Name, Sent]) -> bool:
        """Return whether another machine has sent or removed it since, later than it changed here."""
        if word is None or word is mine.get(name) or word.entry == self.base.get(name):
            return False
        return not self._newer_here(name, word)

    def _remove_there(self, gone: Sequence[Name], there: Mapping[Name, Sent], mine: dict[Name, Sent]) -> None:
        """Remove names, from the manifest first: who starts in between must not look for missing contents."""
        self._publish({name: _word(None, there.get(name)) for name in gone}, mine)
        try:
            for name in gone:
                with suppress(FileNotFoundError):
                    self.place.fs.rm_file(self.place.key(name))
                self.base.pop(name, None)
        finally:
            self._write_note()

    def _send(
        self,
        changed: Sequence[Name],
        there: Mapping[Name, Sent],
        mine: dict[Name, Sent],
        going_on: Callable[[], bool],
    ) -> bool:
        """Send files, then name them in the manifest; return whether all was sent."""
        words: dict[Name, Sent] = {}
        try:
            for name in changed:
                if not going_on():
                    return False
                # Its entry is taken before its content: what is written meanwhile is sent the next time.
                with suppress(FileNotFoundError):
                    entry = entry_of(self.folder, self.folder.joinpath(*name))
                    if entry.kind is Kind.FILE:
                        self.place.put(self.folder.joinpath(*name), name)
                    words[name] = _word(entry, there.get(name))
        finally:
            self._publish(words, mine)
            self.base |= {name: word.entry for name, word in words.items() if word.entry is not None}
            self._write_note()
        return True

    def _publish(self, words: Mapping[Name, Sent], mine: dict[Name, Sent]) -> None:
        if words:
            mine |= words
            self.place.write_manifest(self.machine, mine)

    # --- one name -------------------------------------------------------------------------------------------

    def _newer_here(self, name: Name, there: Sent) -> bool:
        """Return whether it has changed here later than there and was not sent yet."""
        path = self.folder.joinpath(*name)
        try:
            here, changed_ns = entry_of(self.folder, path), path.lstat().st_mtime_ns
        except OSError:
            return False
        return here != self.base.get(name) and changed_ns > there.changed_ns

    def _fetch(self, name: Name, entry: Entry) -> bool:
        """Fetch one entry; return whether its content was there."""
        path = self.folder.joinpath(*name)
        if not path.parent.resolve().is_relative_to(self.folder.resolve()):
            raise OutputError(f"{shown('/'.join(name))} lies behind a link that leads out of the outputs")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if entry.kind is Kind.FOLDER:
            path.mkdir(exist_ok=True)
            path.chmod(entry.mode | 0o700)
            return True
        beside = self.folder.with_name(f".{self.folder.name}.part")
        beside.unlink(missing_ok=True)
        if entry.kind is Kind.LINK:
            beside.symlink_to(entry.target)
        else:
            try:
                self.place.fs.get_file(self.place.key(name), str(beside))
            except FileNotFoundError:
                return False
            beside.chmod(entry.mode)
            os.utime(beside, ns=(entry.mtime_ns, entry.mtime_ns))
        beside.replace(path)
        return True

    def _remove(self, name: Name) -> None:
        """Remove a file and the folders that are empty without it."""
        path = self.folder.joinpath(*name)
        with suppress(OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            for folder in list(path.parents)[: len(name) - 1]:
                folder.rmdir()

    def _write_note(self) -> None:
        beside = self._note.with_suffix(f".{os.getpid()}.part")
        beside.write_text(json.dumps([[list(name), asdict(entry)] for name, entry in self.base.items()]))
        beside.replace(self._note)


def _word(entry: Entry | None, before: Sent | None) -> Sent:
    """Return an entry that is newer than the one before, even if this machine's clock is behind."""
    return Sent(time.time() if before is None else max(time.time(), before.at_s + TICK_S), entry)


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
