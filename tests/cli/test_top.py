"""`coadapt top` shows jobs and GPUs on one screen, and `coadapt events` a line for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.cli.top import screen

from tests.cli.test_cli import row
from tests.support.listed import Listed

NODE = {"gpu_type": "t4", "gpus": 4, "jobs": {"a-1": 3}}
VIEW: dict[str, Any] = {"nodes": [NODE], "rounds": 7, "notes": ["degraded since 10:00:00: no room"]}


class Watched(Listed):
    """A client of a cluster with two jobs, and of events."""

    asked: ClassVar[list[tuple[Any, ...]]] = []
    told: ClassVar[list[dict[str, Any]]] = [
        {"number": 4, "time_s": 0.0, "kind": "failing", "text": "try 1 failed", "job_id": "a-1", "who": ""},
        {"number": 5, "time_s": 0.0, "kind": "settings", "text": "debounce_s is 1", "job_id": None, "who": "ops"},
    ]

    def list(self) -> list[dict[str, Any]]:
        runs = row(id="a-1", status="running", gpus=3, gpu_type="t4", owner="ann", phase="running")
        return [runs, row(id="b-2", name="b", status="waiting", reason="no room", phase="queued")]

    def cluster(self) -> dict[str, Any]:
        return VIEW

    def events(self, job: str | None, *, last: int, kinds: Sequence[str], since_s: float | None) -> Any:
        self.asked.append((job, last, list(kinds), since_s is not None))
        return self.told

    def follow_events(
        self, job: str | None, *, after: int | None, kinds: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        self.asked.append((job, after))
        yield self.told[0] | {"number": 6, "text": "try 2 failed"}
        raise KeyboardInterrupt


def test_top_prints_one_screen_where_it_is_piped(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(main, "_connect", Watched)
    assert main.run(["top"]) == Exit.OK
    told = capsys.readouterr().out.splitlines()
    assert "1 job with GPUs, 1 without; round 7" in told[0]
    assert told[1].split("]")[1].strip() == "3 of 4 GPUs"
    assert told[2] == "! degraded since 10:00:00: no room"
    assert [line.split()[:3] for line in told[5:]] == [["a-1", "ann", "running"], ["b-2", "-", "waiting"]]
    assert not any("\x1b" in line for line in told)


def test_top_fits_its_screen() -> None:
    jobs = [row(id=f"job-{n}", reason="x" * 300) for n in range(100)]
    lines = screen(VIEW, jobs, (), 0.0, 80, 24)
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "… and 83 more jobs"


def test_top_shows_what_runs_however_many_wait_and_says_where_nothing_does(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    class Many(Watched):
        def list(self) -> list[dict[str, Any]]:
            waiting = [row(id=f"b-{n}", phase="queued", submitted_s=9.0) for n in range(60)]
            return [row(id="a-1", gpus=1, gpu_type="t4", phase="running", submitted_s=0.0), *waiting]

    class Empty(Watched):
        def list(self) -> list[dict[str, Any]]:
            return []

    monkeypatch.setattr(main, "_connect", Many)
    assert main.run(["top"]) == Exit.OK
    told = capsys.readouterr().out.splitlines()
    assert "1 job with GPUs, 50+ without" in told[0]
    assert told[5].startswith("a-1 ")
    monkeypatch.setattr(main, "_connect", Empty)
    assert main.run(["top"]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1] == "no jobs; `coadapt submit job.yaml` submits one"


def test_events_are_lines_and_go_on(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(main, "_connect", Watched)
    assert main.run(["events", "a-1", "--kind", "failing", "--since", "2h", "--last", "5"]) == Exit.OK
    assert Watched.asked[-1] == ("a-1", 5, ["failing"], True)
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("  a-1  failing: try 1 failed")
    assert told[1].endswith("  cluster  settings: debounce_s is 1 (by ops)")
    assert main.run(["events", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == Watched.told
    assert main.run(["events", "-f", "--json"]) == Exit.INTERRUPTED
    assert [json.loads(line)["number"] for line in capsys.readouterr().out.splitlines()] == [4, 5, 6]
    assert Watched.asked[-1] == (None, 5)
