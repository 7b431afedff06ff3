"""Packing a job's working directory on the user's machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from ..core.errors import PackageError
from ..core.job import JobSpec
from ..core.output_tree import shown
from ..core.package_form import MIB, MOST_ENTRIES, unpacked_bytes

# Stay behind, in the syntax of .gitignore; a line of .coadaptignore may send one of them after all (`!name`).
CACHES = (
    *(".git", ".hg", ".svn", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    *("node_modules", ".tox", ".ipynb_checkpoints", ".DS_Store"),
)
SECRETS = (
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.key", "*.p12", "*.pfx"),
    *(".netrc", ".pgpass", ".git-credentials"),
)
IGNORE_FILE = ".coadaptignore"
IGNORE_BYTES = 64 << 10
MAX_NAMED = 5  # of what stays behind


@dataclass(frozen=True)
class Package:
    """A compressed tar file, named by its content; `left_behind` says what is not in it, a sentence each kind."""

    name: str
    data: bytes
    left_behind: tuple[str, ...] = ()
    items: frozenset[str] = frozenset()  # its files and folders

    def check(self, script: str) -> None:
        """Raise PackageError if a script is not in it."""
        if os.path.normpath(script) not in self.items:
            raise PackageError(f"script: {script} stays behind, as {IGNORE_FILE} and what is never sent say")


class Packer:
    """Packs the folder of each job, and a folder of several jobs once."""

    def __init__(self, max_mib: int) -> None:
        self._max_mib = max_mib
        self._packages: dict[str, Package] = {}

    def of(self, spec: JobSpec) -> tuple[Package, bool]:
        """Return the package of a job's folder, and whether it is a new one. Raises: PackageError."""
        folder = os.path.realpath(spec.working_dir)
        new = folder not in self._packages
        if new:
            self._packages[folder] = pack(Path(spec.working_dir), self._max_mib)
        package = self._packages[folder]
        if spec.script:
            package.check(spec.script)
        return package, new

    def told(self, spec: JobSpec) -> dict[str, str]:
        """Return what the service is told of a job: its spec, its package and what it trains."""
        package, _ = self.of(spec)
        # What is left out may be filled in by the template of a team.
        document = spec.model_dump_json(exclude_unset=True)
        return {"spec": document, "package": package.name, "script_key": script_key(package, spec)}


@dataclass(frozen=True)
class Item:
    """One file or folder to send. What a link leads to is sent in its place."""

    name: str  # relative, with slashes
    path: Path
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def size(self) -> int:
        return 0 if self.is_folder else self.status.st_size


@dataclass
class _Walk:
    """A look through a folder: what goes, and what does not and is told."""

    folder: Path
    ignored: GitIgnoreSpec
    own: GitIgnoreSpec  # the user's own lines of it
    secrets: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)  # folders elsewhere that are sent: name -> where

    def items(self, at: Path, prefix: str = "", above: tuple[tuple[int, int], ...] = ()) -> Iterator[Item]:
        """Yield everything to send below a folder, sorted; `above` are the folders it is in."""
        try:
            names = sorted(os.listdir(at))
        except OSError as error:
            raise PackageError(f"working_dir: {shown(prefix or '.')} cannot be read: {error.strerror}") from None
        for base in names:
            path, name = at / base, prefix + base
            try:
                status = path.stat()
            except OSError:
                if not self.ignored.match_file(name):
                    self.strange.append(f"{shown(name)} (a link that leads nowhere)")
                continue
            folder = stat.S_ISDIR(status.st_mode)
            if self._stays(name, path, folder):
                continue
            here = status.st_dev, status.st_ino
            if not folder and not stat.S_ISREG(status.st_mode):
                self.strange.append(f"{shown(name)} (neither a file nor a folder)")
            elif folder and here in above:
                self.strange.append(f"{shown(name)} (a link to a folder that it is in)")
            else:
                yield Item(name, path, status)
            if folder and here not in above:
                if path.is_symlink():
                    self.links[name] = os.path.realpath(path)
                yield from self.items(path, f"{name}/", (*above, here))

    def _stays(self, name: str, path: Path, folder: bool) -> bool:
        """Return whether it stays behind; a secret is one by whatever name a link gives it."""
        as_pattern = f"{name}/" if folder else name
        target = os.path.basename(os.path.realpath(path)) if path.is_symlink() else ""
        secret = _SECRETS.match_file(as_pattern) or bool(target and _SECRETS.match_file(target))
        stays = self.ignored.match_file(as_pattern) or (secret and not self._wanted(as_pattern))
        if stays and secret and not self.own.match_file(as_pattern):
            self.secrets.append(shown(name))
        return stays

    def _wanted(self, name: str) -> bool:
        return self.own.check_file(name).include is False

    def told(self) -> tuple[str, ...]:
        sentences = []
        if self.secrets:
            hint = f"a line such as !NAME in {IGNORE_FILE} sends one"
            sentences.append(f"secrets stay behind: {some(self.secrets)} ({hint})")
        if self.strange:
            sentences.append(f"left out: {some(self.strange)}")
        return tuple(sentences)


_SECRETS = GitIgnoreSpec.from_lines(SECRETS)


def pack(folder: Path, max_mib: int) -> Package:
    """Return the folder as a package; equal content gives the same name.

    Raises: PackageError for a folder that is missing or cannot be read, is larger than `max_mib`, or has more than
        `MOST_ENTRIES` files.
    """
    if not folder.is_dir():
        raise PackageError(f"working_dir: {folder} is not a folder")
    lines = _own_lines(folder)
    walk = _Walk(folder, _spec([*CACHES, *SECRETS, *lines]), _spec(lines))
    items = _bounded(walk, max_mib)
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for item in items:
            entry, data = tarfile.TarInfo(item.name), b""
            entry.mode = item.status.st_mode & 0o777
            if item.is_folder:
                entry.type = tarfile.DIRTYPE
            else:
                data = _read(item)
                entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    if buffer.tell() > max_mib * MIB:
        raise PackageError(_too_large(walk, items, f"{buffer.tell() / MIB:.0f} MiB", max_mib))
    names = frozenset(item.name for item in items)
    data = buffer.getvalue()
    return Package(hashlib.sha256(data).hexdigest(), data, walk.told(), names)


def _bounded(walk: _Walk, max_mib: int) -> list[Item]:
    """Return all items, unless there are too many to look at."""
    items: list[Item] = []
    size = 0
    for item in walk.items(walk.folder, above=(_identity(walk.folder),)):
        items.append(item)
        size += item.size
        if size > unpacked_bytes(max_mib):
            raise PackageError(_too_large(walk, items, f"more than {unpacked_bytes(max_mib) // MIB} MiB", max_mib))
        if len(items) > MOST_ENTRIES:
            told = f"working_dir: {walk.folder} has more than {MOST_ENTRIES} files and folders, which is the most"
            raise PackageError(f"{told}; most are in {_fullest(items)}{_leads(walk)}; {_KEEP}")
    return items


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _read(item: Item) -> bytes:
    try:
        return item.path.read_bytes()
    except OSError as error:
        raise PackageError(f"working_dir: {shown(item.name)} cannot be read: {error.strerror}") from None


def _own_lines(folder: Path) -> list[str]:
    path = folder / IGNORE_FILE
    try:
        with path.open("rb") as file:
            data = file.read(IGNORE_BYTES + 1)
        if len(data) > IGNORE_BYTES:
            raise PackageError(f"{IGNORE_FILE}: more than {IGNORE_BYTES // 1024} KiB, which is the most")
        return data.decode().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise PackageError(f"{IGNORE_FILE}: cannot be read: {error}") from None


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise PackageError(f"{IGNORE_FILE}: {error}") from None


_KEEP = "keep large data outside of it, where the nodes reach it"


def some(names: Sequence[str]) -> str:
    """Return a few names and how many more there are."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _too_large(walk: _Walk, items: Sequence[Item], size: str, max_mib: int) -> str:
    largest = sorted(items, key=lambda item: -item.size)[:3]
    names = ", ".join(f"{shown(item.name)} ({item.size / MIB:.0f} MiB)" for item in largest)
    told = f"working_dir: {walk.folder} has {size}, at most {max_mib} MiB are sent; largest: {names}"
    return f"{told}{_leads(walk)}; {_KEEP}"


def _leads(walk: _Walk) -> str:
    links = [f"{shown(name)} leads to {shown(where)}" for name, where in walk.links.items()]
    return f"; {some(links)}" if links else ""


def _fullest(items: Sequence[Item]) -> str:
    counts: dict[str, int] = {}
    for item in items:
        folder = item.name.partition("/")[0]
        counts[folder] = counts.get(folder, 0) + 1
    return shown(max(counts, key=lambda name: counts[name]))


def script_key(package: Package, spec: JobSpec) -> str:
    """Name what a job trains before it runs, by files, script, arguments, environment and requirements."""
    what = [package.name, spec.script, spec.args, sorted(spec.env.items()), spec.pip, *spec.command]
    return "script-" + hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]
