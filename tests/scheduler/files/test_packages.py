"""What travels with a job: everything in its folder, whatever it is called, or a sentence says what stays."""

from __future__ import annotations

import io
import os
import socket
import stat
import tarfile
from pathlib import Path

import pytest
from coadapt.api.arriving_package import ArrivingPackage
from coadapt.client import package
from coadapt.client.package import Package, pack, script_key
from coadapt.core.errors import PackageError
from coadapt.core.job import JobSpec
from coadapt.executor.files.job_folder import FolderError, unpack
from coadapt.scheduler.files.packages import PackageStore

from tests.support.packages import NAME, PACKAGE


def sent(package: Package, folder: Path) -> list[str]:
    """Return everything that arrives when a package is unpacked. Folders end with a slash."""
    folder.mkdir()
    unpack(io.BytesIO(package.data), folder)
    return sorted(
        str(path.relative_to(folder)) + "/" * path.is_dir() for path in folder.rglob("*") if not path.is_symlink()
    )


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)")
    return folder


def test_caches_environments_and_version_control_stay_behind(job: Path, tmp_path: Path) -> None:
    (job / "pkg").mkdir()
    (job / "pkg" / "data.txt").write_text("x")
    for name in (".git", ".venv", "__pycache__", "pkg/__pycache__"):
        (job / name).mkdir()
        (job / name / "f").write_text("no")
    package = pack(job, 10)
    assert sent(package, tmp_path / "there") == ["pkg/", "pkg/data.txt", "train.py"]
    assert package.left_behind == ()


def test_linked_folders_and_files_travel_as_what_they_lead_to(job: Path, tmp_path: Path) -> None:
    (tmp_path / "shared" / "mylib").mkdir(parents=True)
    (tmp_path / "shared" / "mylib" / "__init__.py").write_text("WORD = 1")
    (job / "mylib").symlink_to("../shared/mylib")
    (job / "one.py").symlink_to(tmp_path / "shared" / "mylib" / "__init__.py")
    package = pack(job, 10)
    assert sent(package, tmp_path / "there") == ["mylib/", "mylib/__init__.py", "one.py", "train.py"]
    assert (tmp_path / "there" / "one.py").read_text() == "WORD = 1"
    assert package.left_behind == ()


def test_a_folder_that_two_links_lead_to_travels_twice(job: Path, tmp_path: Path) -> None:
    (job / "a").mkdir()
    (job / "a" / "f").write_text("x")
    (job / "b").symlink_to("a")
    assert sent(pack(job, 10), tmp_path / "there") == ["a/", "a/f", "b/", "b/f", "train.py"]


def test_empty_folders_odd_names_and_modes_arrive_as_they_were(job: Path, tmp_path: Path) -> None:
    names = ["with space", "-dash", "new\nline", "back\\slash", "ünïcode", "quote'\"", "a" * 200, "..odd"]
    for name in names:
        (job / name).write_text(name)
    os.write(raw := os.open(os.fsencode(job) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY, 0o600), b"bytes")
    os.close(raw)
    (job / "empty" / "inner").mkdir(parents=True)
    (job / "run.sh").write_text("#!/bin/sh")
    (job / "run.sh").chmod(0o755)
    (job / "read").write_text("only")
    (job / "read").chmod(0o400)
    package = pack(job, 10)
    there = tmp_path / "there"
    expected = sorted([*names, "empty/", "empty/inner/", "run.sh", "read", "train.py", os.fsdecode(b"\xff\xfe")])
    assert sent(package, there) == expected
    assert all((there / name).read_text() == name for name in names)
    assert stat.S_IMODE((there / "run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((there / "read").stat().st_mode) == 0o400
    assert package.left_behind == ()


def test_what_cannot_travel_is_named_in_one_sentence(job: Path, tmp_path: Path) -> None:
    (job / "sub").mkdir()
    (job / "sub" / "loop").symlink_to("..")
    (job / "lost").symlink_to("nowhere")
    os.mkfifo(job / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(job / "s"))
        package = pack(job, 10)
    assert sent(package, tmp_path / "there") == ["sub/", "train.py"]
    assert package.left_behind == (
        "left out: lost (a link that leads nowhere), pipe (neither a file nor a folder), "
        "s (neither a file nor a folder), sub/loop (a link to a folder that it is in)",
    )


def test_secrets_stay_behind_and_are_named(job: Path, tmp_path: Path) -> None:
    (job / "keys").mkdir()
    for name in (".env", ".env.local", "keys/server.pem", "id_rsa", ".env.example", "monkey.py", ".netrc"):
        (job / name).write_text("x")
    (job / "settings").symlink_to(".env")
    package = pack(job, 10)
    assert sent(package, tmp_path / "there") == [".env.example", "keys/", "monkey.py", "train.py"]
    (sentence,) = package.left_behind
    assert sentence.startswith("secrets stay behind: .env, .env.local, .netrc, id_rsa, keys/server.pem and 1 more")
    assert ".coadaptignore" in sentence


def test_the_ignore_file_speaks_gitignore_and_has_the_last_word(job: Path, tmp_path: Path) -> None:
    (job / ".coadaptignore").write_text("*.bin\n/data/\n!keep.bin\n!cacert.pem\n!.venv/\n# a comment\n")
    for name in ("data", "sub", ".venv"):
        (job / name).mkdir()
        (job / name / "x.py").write_text("x")
    (job / "sub" / "data").mkdir()
    for name in ("a.bin", "keep.bin", "cacert.pem", "server.pem", "sub/b.bin"):
        (job / name).write_text("x")
    package = pack(job, 10)
    assert sent(package, tmp_path / "there") == sorted(
        [
            *(".coadaptignore", ".venv/", ".venv/x.py", "cacert.pem", "keep.bin"),
            *("sub/", "sub/data/", "sub/x.py", "train.py"),
        ]
    )
    assert package.left_behind == (
        "secrets stay behind: server.pem (a line such as !NAME in .coadaptignore sends one)",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ok\n!\n", r"\.coadaptignore: Invalid git pattern: '!'"),
        (b"\xff", r"\.coadaptignore: cannot be read"),
        (b"a" * (64 << 10) + b"b", r"\.coadaptignore: more than 64 KiB"),
        (b"train.py", r"script: train.py stays behind"),
    ],
)
def test_an_ignore_file_that_makes_no_sense_is_refused(job: Path, content: bytes, message: str) -> None:
    (job / ".coadaptignore").write_bytes(content)
    with pytest.raises(PackageError, match=message):
        pack(job, 10).check("train.py")


def test_equal_folders_make_one_package(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "empty").mkdir(parents=True)
        (tmp_path / name / "train.py").write_text("print(1)")
    os.utime(tmp_path / "b" / "train.py", (1, 1))
    first, second = pack(tmp_path / "a", 10), pack(tmp_path / "b", 10)
    assert first == second
    (tmp_path / "b" / "empty").rmdir()
    assert pack(tmp_path / "b", 10).name != first.name


def test_a_folder_that_is_too_large_names_its_largest_files_and_its_links(job: Path, tmp_path: Path) -> None:
    (job / "weights.bin").write_bytes(os.urandom(3 * 2**20))
    with pytest.raises(
        PackageError, match=r"at most 2 MiB are sent; largest: weights.bin \(3 MiB\).*; keep large"
    ):
        pack(job, 2)
    (tmp_path / "far").mkdir()
    for i in range(3):
        (tmp_path / "far" / f"{i}").write_bytes(b"\0" * 3 * 2**20)
    (job / "data").symlink_to("../far")
    with pytest.raises(PackageError, match=r"more than 4 MiB, .*; data leads to .*/far; keep large"):
        pack(job, 1)
    with pytest.raises(PackageError, match="is not a folder"):
        pack(tmp_path / "nothing", 2)


def test_a_folder_of_too_many_files_says_where_they_are(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST_ENTRIES", 10)
    (job / "data").mkdir()
    for i in range(20):
        (job / "data" / f"{i}").touch()
    with pytest.raises(
        PackageError, match=r"has more than 10 files and folders, .*; most are in data; keep large"
    ):
        pack(job, 1)


def test_a_file_that_cannot_be_read_is_named(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (job / "mine").touch()
    (job / "train.py").unlink()
    monkeypatch.setattr(Path, "read_bytes", forbidden)  # root may read everything
    with pytest.raises(PackageError, match="working_dir: mine cannot be read: Permission denied"):
        pack(job, 1)


def made(**member: object) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo(str(member.pop("name")))
        for field, value in member.items():
            setattr(entry, field, value)
        archive.addfile(entry, io.BytesIO())
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize(
    "member",
    [
        {"name": "../out"},
        {"name": "/etc/passwd"},
        {"name": "a/../../out"},
        {"name": "link", "type": tarfile.SYMTYPE, "linkname": "/etc"},
        {"name": "dev", "type": tarfile.CHRTYPE},
    ],
)
def test_a_package_never_writes_outside_of_its_folder(tmp_path: Path, member: dict[str, object]) -> None:
    with pytest.raises(FolderError, match="which is not of its folder"):
        unpack(made(**member), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_package_that_is_cut_off_is_told(job: Path, tmp_path: Path) -> None:
    (job / "data").write_bytes(os.urandom(100_000))
    data = pack(job, 1).data
    with pytest.raises(FolderError, match="cannot be read"):
        unpack(io.BytesIO(data[: len(data) // 2]), tmp_path)


def test_packages_are_kept_whole_and_found_by_plain_names(tmp_path: Path) -> None:
    store, folder = PackageStore(tmp_path / "packages"), tmp_path / "packages"
    with ArrivingPackage(folder, NAME, 1) as package:
        package.add(PACKAGE[:10])
        package.add(PACKAGE[10:])
        assert not store.has(NAME)
        package.keep()
    assert store.find(NAME).read_bytes() == PACKAGE
    assert not store.has(f"../packages/{NAME}")
    with pytest.raises(PackageError, match=r"package: other is not in .*; submit the job again"):
        store.find("other")
    assert [path.name for path in folder.iterdir()] == [f"{NAME}.tar.gz"]


def test_only_a_job_with_the_same_files_and_arguments_trains_the_same(job: Path) -> None:
    (job / "model.py").write_text("LAYERS = 2")
    spec = JobSpec(name="a", script="train.py", args=["a", "b"])
    key = script_key(pack(job, 1), spec)
    assert key == script_key(pack(job, 1), spec.model_copy(update={"name": "another"}))
    assert key != script_key(pack(job, 1), spec.model_copy(update={"args": ["ab"]}))
    assert key != script_key(pack(job, 1), spec.model_copy(update={"pip": ["six"]}))
    (job / "model.py").write_text("LAYERS = 20")
    assert key != script_key(pack(job, 1), spec)
