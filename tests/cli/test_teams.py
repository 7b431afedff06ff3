"""`coadapt teams` shows teams; `teams apply` says what would change, asks, and applies it or says why not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli import main, teams
from coadapt.cli.exit_codes import Exit
from coadapt.client.client import RequestError

from tests.support.api import Api

TEXT = "teams:\n  vision: {users: [ann, bob], guarantee: {t4: 2}, limits: {queued: 100, gpus: {t4: 3}}}\n"
CHANGE = "team vision is new: 2 users (ann, bob), share 1, guarantee t4 2, limits queued 100, gpus t4 3\n"
UNTRIED = "the simulator could not try it: whatif: no round was planned yet; ask again after the first one\n"


class Client:
    """A client of an app in this process."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def teams(self) -> Any:
        return self._api.ask("GET", "/v1/teams").json()

    def check_teams(self, values: Mapping[str, Any]) -> Any:
        return self._put({"file": values, "dry_run": True})

    def apply_teams(self, values: Mapping[str, Any], *, version: str | None = None) -> Any:
        return self._put({"file": values, "version": version})

    def whatif(self, *, teams: Mapping[str, Any]) -> Any:
        answer = self._api.ask("POST", "/v1/whatif", json={"teams": teams})
        if answer.status_code != 200:
            raise RequestError(answer.json()["detail"])
        return answer.json()

    def _put(self, body: Mapping[str, Any]) -> Any:
        answer = self._api.ask("PUT", "/v1/teams", json=body)
        if answer.status_code != 200:
            raise RequestError(answer.json()["detail"])
        return answer.json()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    api = Api(tmp_path / "api")
    monkeypatch.setattr(main, "_connect", lambda: Client(api))
    path = tmp_path / "teams.yaml"
    path.write_text(TEXT)
    yield path
    api.world.store.close()


def said(capsys: pytest.CaptureFixture[str]) -> str:
    told = capsys.readouterr()
    return told.out + told.err


def test_teams_are_applied_once_somebody_agrees(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["teams"]) == Exit.OK
    assert said(capsys).startswith("no teams share this cluster; ")
    monkeypatch.setattr("typer.confirm", lambda text: False)
    assert main.run(["teams", "apply", str(file)]) == Exit.OK
    assert said(capsys) == f"{CHANGE}{UNTRIED}nothing is changed\n"
    monkeypatch.setattr("typer.confirm", lambda text: True)
    assert main.run(["teams", "apply", str(file)]) == Exit.OK
    assert said(capsys) == f"{CHANGE}{UNTRIED}applied; it counts from the next round on\n"
    assert main.run(["teams", "apply", str(file)]) == Exit.OK
    assert said(capsys) == "nothing would change\n"
    assert main.run(["teams"]) == Exit.OK
    (line,) = [line for line in said(capsys).splitlines() if line.startswith("vision")]
    assert " ".join(line.split()) == "vision 1 2 t4 - - - - low, normal, high 100 queued, 3 t4 ann, bob"
    assert main.run(["teams", "--json"]) == Exit.OK
    assert json.loads(said(capsys))["teams"]["vision"]["cap"] == {}


def test_a_dry_run_changes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main.run(["teams", "apply", "--dry-run", str(file)]) == Exit.OK
        assert said(capsys) == CHANGE
    assert main.run(["teams", "apply", "--json", "--yes", str(file)]) == Exit.OK
    assert json.loads(said(capsys))["changes"] == [CHANGE.strip()]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("teams: {a: {guarantee: {t4: 5}}}", "guarantee.t4: 5 of a is 5, and the cluster has 4 GPUs of that type"),
        ("teams: {a: {share: 0}}", "teams.a.share: 0 is not a number above 0"),
        ("teams: [", "line 1: not YAML"),
        ("", "the file is empty"),
    ],
)
def test_a_file_that_cannot_be_applied_is_one_line(
    file: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert main.run(["teams", "apply", "--yes", str(file)]) == Exit.USAGE
    told = capsys.readouterr()
    line = next(line for line in told.err.splitlines() if str(file) in line)
    assert line.startswith(f"coadapt: {file}: {sentence}")


def test_a_file_that_is_not_there_is_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["teams", "apply", f"{file}x"]) == Exit.USAGE
    assert said(capsys) == f"coadapt: {file}x: cannot be read: No such file or directory\n"


def test_whom_a_file_would_delay_is_told_before_it_asks() -> None:
    def row(job: str, team: str, later_s: float | None) -> dict[str, Any]:
        low, high = (None, None) if later_s is None else (later_s / 2, later_s * 2)
        return {"id": job, "team": team, "later_s": later_s, "later_low_s": low, "later_high_s": high}

    rows = [row("a-1", "vision", 600.0), row("b-2", "", 180.0), row("c-3", "", 0.5), row("d-4", "", None)]
    view: Any = {"text": "2 jobs end later, a-1 by 10 min.", "delayed": 2, "jobs": rows}
    assert teams.delays(view) == [
        "tried by the simulator: 2 jobs end later, a-1 by 10 min.",
        "  a-1 of team vision ends later by 10m (+5m to +20m)",
        "  b-2 ends later by 3m (+90s to +6m)",
    ]
