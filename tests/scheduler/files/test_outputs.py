"""What a script leaves in its output folder is kept, listed and fetched, whatever it is and however much."""

from __future__ import annotations

import itertools
import json
import os
import socket
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli import outputs as shown_outputs
from coadapt.client import fetch as fetching
from coadapt.client.fetch import Fetched, fetch
from coadapt.core.errors import OutputError
from coadapt.core.output_tree import Entry, Kind, Name, entries
from coadapt.executor.training import api
from coadapt.scheduler.files import outputs as reading
from coadapt.scheduler.files.outputs import Outputs

ODD = ["new\nline", "back\\slash", "#hash?", "*star[1]", "ünïcode", " space ", "%41", os.fsdecode(b"\xff\xfe")]


class Client:
    """Outputs without a cluster: what the service would answer."""

    def __init__(self, url: str | Path) -> None:
        self._outputs = Outputs(str(url))
        self.asked: list[Name] = []

    def outputs(self, job_id: str = "") -> Any:
        after: Name = ()
        while page := self._outputs.page(after):
            yield from page
            after = page[-1].name

    def output_contents(self, job_id: str, names: Sequence[Name]) -> Sequence[bytes | None]:
        found = self._outputs.contents(names)
        self.asked += names[: len(found)]
        return found

    def output_part(self, job_id: str, name: Name, offset: int) -> bytes | None:
        return self._outputs.part(name, offset)

    def fetch_outputs(self, job_id: str, dest: Path) -> Fetched:
        return fetch(self, job_id, self.outputs(), dest)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "outputs"
    (made / "a" / "b").mkdir(parents=True)
    (made / "a" / "b" / "best.pt").write_bytes(b"x" * 1000)
    (made / "a-file").write_text("before a/ as text, after it as names")
    (made / "empty").mkdir()
    (made / "run.sh").write_text("#!/bin/sh")
    (made / "run.sh").chmod(0o750)
    return made


def names(url: str | Path) -> list[str]:
    return [output.path for output in Client(url).outputs() if output.entry.kind.is_kept]


def test_outputs_are_listed_in_order_and_page_by_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = names(folder)
    assert whole == ["a/b/best.pt", "a-file", "empty", "run.sh"]
    for size in (1, 2, 3):
        monkeypatch.setattr(reading, "PAGE", size)
        assert names(folder) == whole


def test_every_name_is_listed_once_whatever_the_size_of_the_pages(tmp_path: Path) -> None:
    for i, j in itertools.product(range(6), range(6)):
        (tmp_path / f"d{i}").mkdir(exist_ok=True)
        (tmp_path / f"d{i}" / f"f{j}").touch()
        (tmp_path / f"f{i}{j}").touch()
    whole = [name for name, _ in entries(tmp_path)]
    assert len(whole) == 72
    assert whole == sorted(whole)
    for after in whole:
        for at_once in (1, 3):
            rest = [name for name, _ in entries(tmp_path, after, at_once)]
            assert rest == whole[whole.index(after) + 1 :]


def test_fetched_outputs_are_as_they_were(folder: Path, tmp_path: Path) -> None:
    for name in ODD:
        (folder / name).write_text(name.encode(errors="replace").decode())
    (folder / "latest").symlink_to("a/b/best.pt")
    (folder / "here").symlink_to(folder / "a")
    dest = tmp_path / "dest"
    done = Client(folder).fetch_outputs("", dest)
    assert (done.files, done.notes) == (3 + len(ODD), ())
    assert [n for n, _ in entries(dest)] == [n for n, _ in entries(folder)]
    for name, entry in entries(folder):
        there = dest.joinpath(*name)
        if entry.kind is Kind.FILE:
            assert there.read_bytes() == folder.joinpath(*name).read_bytes()
            assert there.stat().st_mtime_ns == entry.mtime_ns
    assert (dest / "run.sh").stat().st_mode & 0o777 == 0o750
    assert (dest / "here").resolve() == dest / "a"
    assert os.readlink(dest / "latest") == "a/b/best.pt"


def test_what_was_fetched_before_is_not_fetched_again_and_nothing_else_is_touched(
    folder: Path, tmp_path: Path
) -> None:
    dest = tmp_path / "dest"
    Client(folder).fetch_outputs("", dest)
    (dest / "mine.txt").write_text("mine")
    (folder / "run.sh").write_text("changed")
    again = Client(folder)
    done = again.fetch_outputs("", dest)
    assert (done.files, done.kept) == (1, 2)
    assert again.asked == [("run.sh",)]
    assert (dest / "run.sh").read_text() == "changed"
    assert (dest / "mine.txt").read_text() == "mine"


def test_large_files_and_many_small_ones_come_in_parts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PART_BYTES", 1000)
    monkeypatch.setattr(fetching, "PART_BYTES", 1000)
    monkeypatch.setattr(fetching, "AT_ONCE", 7)
    (folder / "large").write_bytes(os.urandom(10_500))
    (folder / "exact").write_bytes(os.urandom(2_000))
    for i in range(30):
        (folder / f"small-{i}").write_bytes(os.urandom(300))
    Client(folder).fetch_outputs("", tmp_path / "dest")
    for path in folder.rglob("*"):
        if path.is_file():
            assert (tmp_path / "dest" / path.relative_to(folder)).read_bytes() == path.read_bytes()


def test_links_out_of_the_folder_are_named_and_never_followed(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    (folder / "out").symlink_to(secret)
    (folder / "up").symlink_to("..")
    (folder / "hop").symlink_to("out")
    (folder / "s").symlink_to(folder / "a" / "b")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
    client = Client(folder)
    done = client.fetch_outputs("", tmp_path / "dest")
    assert done.notes == (
        "hop, out, up left out of the outputs: links that lead out of the folder",
        "socket left out of the outputs: neither files nor folders, or too deep",
    )
    assert not {"out", "up", "hop"} & set(os.listdir(tmp_path / "dest"))
    for name in (("out",), ("up", "secret"), ("..", "secret"), ("s", "..", "..", "..", "secret")):
        assert Outputs(str(folder)).part(name, 0) is None


def test_a_link_in_the_destination_does_not_lead_a_fetch_astray(folder: Path, tmp_path: Path) -> None:
    dest, elsewhere = tmp_path / "dest", tmp_path / "elsewhere"
    dest.mkdir()
    elsewhere.mkdir()
    (dest / "a").symlink_to(elsewhere)
    with pytest.raises(OutputError, match="a link leads out of"):
        Client(folder).fetch_outputs("", dest)
    assert not list(elsewhere.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="File exists"):
        Client(folder).fetch_outputs("", tmp_path / "file")


def test_a_file_that_vanishes_while_it_is_fetched_costs_only_itself(folder: Path, tmp_path: Path) -> None:
    client = Client(folder)
    listed = list(client.outputs())
    (folder / "run.sh").unlink()
    done = fetch(client, "", listed, tmp_path / "dest")
    assert done.notes == ("run.sh left out of the outputs: gone since they were listed",)
    assert (tmp_path / "dest" / "a-file").exists()
    assert not (tmp_path / "dest" / "run.sh").exists()


def test_no_outputs_yet_is_no_error(tmp_path: Path) -> None:
    assert names(tmp_path / "nothing") == []
    with pytest.raises(OutputError, match="outputs at nonsense://x"):
        Outputs("nonsense://x")


def test_a_folder_of_very_many_files_is_listed_in_bounded_memory(tmp_path: Path) -> None:
    for i in range(30_000):
        (tmp_path / f"{i}").touch()
    tracemalloc.start()
    try:
        page = list(itertools.islice(entries(tmp_path, at_once=100), 100))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(page) == 100
    assert peak < 1 << 20


def test_a_listing_says_how_much_there_is_and_is_json_when_asked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "out").symlink_to("/")
    (folder / "new\nline").touch()
    shown_outputs.listing(Client(folder), "j-1", False)
    said = capsys.readouterr()
    assert said.out.splitlines()[0].split("  ")[-1] == "a/b/best.pt"
    assert "new\\nline" in said.out
    assert "out left out of the outputs: links that lead out of the folder" in said.err
    assert "5 outputs, 1.0 KiB; coadapt outputs j-1 DEST fetches them" in said.err
    shown_outputs.listing(Client(folder), "j-1", True)
    document = json.loads(capsys.readouterr().out)
    assert document["id"] == "j-1"
    assert {"path": "empty", "kind": "folder", "bytes": 0, "modified_s": None, "target": None} in document[
        "outputs"
    ]


def test_a_script_knows_where_to_write_alone_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COADAPT_OUTPUT_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert api.output_dir() == tmp_path
    monkeypatch.setenv("COADAPT_OUTPUT_DIR", "/data/outputs")
    assert api.output_dir() == Path("/data/outputs")


def test_an_entry_that_is_a_folder_has_no_time_of_its_own(folder: Path) -> None:
    found = dict(entries(folder))
    assert found["empty",] == Entry(Kind.FOLDER, mode=(folder / "empty").stat().st_mode & 0o777)
