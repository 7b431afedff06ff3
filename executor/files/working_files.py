"""What a program wrote into its working folder: kept among its outputs, and put back where it starts again.

Programs that run unchanged know no output folder. By hand their results stay where they were written. A job's
working folder goes with the job, and another machine has one of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ...core.errors import OutputError
from ...core.output_tree import Entry, Kind, LeftOut, Name, entries, shown
from .job_folder import UNPACKED_NS

KEPT = "working_dir"  # below the outputs
MOST_BYTES = 10 * 2**30
MOST_FILES = 10_000
# Made anew wherever they are missing.
_CACHES = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", ".cache", ".pytest_cache", ".ipynb_checkpoints"}
)


def keep(folder: Path, kept: Path, tell: Callable[[str], None]) -> None:
    """Make `kept` hold what is new or changed in a working folder, compared with what was submitted.

    `tell` receives a sentence on what is kept, and on what is not.
    """
    left, names, size = LeftOut(), set[Name](), 0
    too_much: list[Name] = []
    try:
        for name, entry in _written(folder, left):
            if len(names) == MOST_FILES or size + entry.size > MOST_BYTES:
                too_much.append(name)
                continue
            with suppress(FileNotFoundError):  # it is gone since it was listed
                _copy(folder, kept, name, entry)
                size += entry.size
                names.add(name)
        _remove_others(kept, names)
    except (OSError, OutputError) as error:
        tell(f"what the program wrote into its working folder is not kept whole: {error}")
        return
    for sentence in left.sentences():
        tell(sentence)
    if too_much:
        tell(
            f"{len(too_much)} files of the working folder are not kept, such as {shown('/'.join(too_much[0]))}; "
            f"at most {MOST_BYTES >> 30} GiB and {MOST_FILES} files are, so write more to $COADAPT_OUTPUT_DIR"
        )
    if names:
        files = (
            "1 file of its working folder is"
            if len(names) == 1
            else f"{len(names)} files of its working folder are"
        )
        tell(f"{files} kept among the outputs, in {KEPT}/")


def put_back(kept: Path, folder: Path) -> None:
    """Put what was kept into a working folder that does not have it, or has an older version of it.

    Raises: OSError, OutputError.
    """
    for name, entry in entries(kept) if kept.is_dir() else ():
        path = folder.joinpath(*name)
        if entry.kind.is_kept and (not os.path.lexists(path) or path.lstat().st_mtime_ns < entry.mtime_ns):
            _copy(kept, folder, name, entry)


def _written(folder: Path, left: LeftOut) -> Iterator[tuple[Name, Entry]]:
    for name, entry in entries(folder):
        if not _CACHES.isdisjoint(name) or (entry.kind is Kind.FILE and entry.mtime_ns == UNPACKED_NS):
            continue
        if entry.kind in (Kind.FILE, Kind.LINK):
            yield name, entry
        elif entry.kind is not Kind.FOLDER:
            left.add(name, entry.kind)


def _copy(source: Path, target: Path, name: Name, entry: Entry) -> None:
    """Copy a file or a link, unless the target has it already; a file appears whole."""
    path, beside = target.joinpath(*name), target.joinpath(*name[:-1], f".{name[-1]}.part")
    if entry.kind is Kind.FILE and path.is_file() and not path.is_symlink():
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == (entry.size, entry.mtime_ns):
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.kind is Kind.LINK:
        beside.unlink(missing_ok=True)
        beside.symlink_to(entry.target)
    else:
        shutil.copy2(source.joinpath(*name), beside, follow_symlinks=False)
    beside.replace(path)


def _remove_others(kept: Path, names: set[Name]) -> None:
    """Remove what the program has removed, too, such as its older checkpoints."""
    gone = [name for name, _ in entries(kept) if name not in names] if kept.is_dir() else []
    for name in gone:
        path = kept.joinpath(*name)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        for parent in list(path.parents)[: len(name) - 1]:
            with suppress(OSError):  # it is not empty
                parent.rmdir()
