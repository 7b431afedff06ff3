"""`coadapt down` ends nobody's jobs unasked, and none at all with `--keep-jobs`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.client.client import NoClusterError
from coadapt.client.cluster_record import ClusterRecord, record_path
from coadapt.deploy import local_cluster


class Service:
    """A service on which others have jobs."""

    others_have: ClassVar[dict[str, int]] = {}
    ended: ClassVar[list[tuple[float, bool]]] = []
    there = True


def end(
    record: ClusterRecord,
    grace_s: float,
    *,
    keep_jobs: bool = False,
    sure: Callable[[Mapping[str, int]], None] = lambda others: None,
) -> None:
    if not Service.there:
        raise NoClusterError("no scheduler runs on the cluster")
    if not keep_jobs and Service.others_have:
        sure(Service.others_have)
    Service.ended.append((grace_s, keep_jobs))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path))
    ClusterRecord("127.0.0.1:1", url="http://127.0.0.1:2").save(tmp_path)
    monkeypatch.setattr(local_cluster, "end_service", end)
    for name, value in (("others_have", {}), ("ended", []), ("there", True)):
        monkeypatch.setattr(Service, name, value)
    return tmp_path


def test_where_all_jobs_are_ones_own_nobody_is_asked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["down"]) == Exit.OK
    assert (Service.ended, record_path(home).exists()) == ([(60.0, False)], False)
    assert capsys.readouterr().out == "down\n"
    assert main.run(["down"]) == Exit.OK
    assert capsys.readouterr().out == "nothing was running\n"


def test_jobs_may_be_given_more_time_to_save() -> None:
    assert main.run(["down", "--grace", "600"]) == Exit.OK
    assert Service.ended == [(600.0, False)]


def test_jobs_of_others_are_not_stopped_unasked(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "others_have", {"": 1, "ann": 2})
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert main.run(["down"]) == Exit.USAGE
    err = capsys.readouterr().err
    assert "3 jobs of other users would stop (somebody: 1, ann: 2); --yes ends the scheduler all the same" in err
    assert (Service.ended, record_path(home).exists()) == ([], True)
    assert main.run(["down", "--yes"]) == Exit.OK
    assert Service.ended == [(60.0, False)]


@pytest.mark.parametrize(("answer", "code"), [(True, Exit.OK), (False, Exit.INTERRUPTED)])
def test_who_sits_there_is_asked(
    answer: bool, code: Exit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "others_have", {"ann": 1})
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked: list[str] = []
    monkeypatch.setattr("typer.confirm", lambda text: bool(asked.append(text)) or answer)
    assert main.run(["down"]) == code
    assert asked == ["1 job of other users would stop (ann: 1). End the scheduler?"]
    assert bool(Service.ended) is answer
    assert answer or "nothing was ended" in capsys.readouterr().err


def test_with_keep_jobs_only_the_scheduler_ends_and_nobody_is_asked(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "others_have", {"ann": 1})
    assert main.run(["down", "--keep-jobs"]) == Exit.OK
    assert (Service.ended, record_path(home).exists()) == ([(60.0, True)], True)
    assert "jobs train on" in capsys.readouterr().out
    monkeypatch.setattr(Service, "there", False)
    assert main.run(["down", "--keep-jobs"]) == Exit.NO_CLUSTER


def test_jobs_that_train_on_without_a_scheduler_are_not_ended_unasked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["down", "--keep-jobs"]) == Exit.OK
    Service.ended.clear()
    assert main.run(["down"]) == Exit.USAGE
    told = "the scheduler has ended, so that jobs which train on could not save; repeat `coadapt up` first"
    assert told in capsys.readouterr().err
    assert (Service.ended, record_path(home).exists()) == ([], True)
    assert main.run(["down", "--yes"]) == Exit.OK
    assert not record_path(home).exists()


@pytest.mark.parametrize("words", [["--grace", "-1"], ["--grace", "soon"], ["--grace", "nan"]])
def test_a_grace_that_is_none_is_refused(words: list[str]) -> None:
    assert main.run(["down", *words]) == Exit.USAGE
    assert Service.ended == []
