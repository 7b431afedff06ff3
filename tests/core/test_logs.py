"""The logs of our processes are lines that programs read, and no secret stands in them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from coadapt.core import logs
from coadapt.core.logs import ROOT, LogFormat, about, write_logs

TOKEN = f"coadapt_0123456789ab_{'s' * 43}"


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    top = logging.getLogger(ROOT)
    before = top.handlers[:], top.level, top.propagate
    yield logging.getLogger(f"{ROOT}.scheduler.loop")
    top.handlers[:], top.level, top.propagate = before


def test_each_line_is_an_object_that_says_when_who_and_about_what(
    log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    write_logs("scheduler", LogFormat.JSON)
    with about(round=7):
        log.info("planned\nin two lines")
    with about(job="j-1"):
        try:
            raise ValueError("my bug")
        except ValueError:
            log.exception("quarantined")
    log.warning("its executor: gone", extra={"job": "j-2"})
    first, second, third = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.pop("time").endswith("Z")
    of_all = {"component": "scheduler", "logger": "scheduler.loop"}
    assert first == {"level": "info", "round": 7, "message": "planned\nin two lines", **of_all}
    assert (second["job"], second["level"]) == ("j-1", "error")
    assert second["message"].endswith("ValueError: my bug")
    assert (third["job"], "round" in third) == ("j-2", False)


def test_no_secret_stands_in_a_log(
    log: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("of-the-cluster\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    logs._of_ray.cache_clear()
    for form in LogFormat:
        write_logs("api", form)
        log.error("Authorization: Bearer hunter2, %s, postgresql://ann:hunter2@db/jobs, of-the-cluster", TOKEN)
        told = capsys.readouterr().err
        assert "hunter2" not in told
        assert TOKEN not in told
        assert "of-the-cluster" not in told
        assert "@db/jobs" in told
    logs._of_ray.cache_clear()


def test_as_text_a_line_names_the_job(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    write_logs("executor", LogFormat.TEXT, job="j-3")
    log.warning("slow")
    assert capsys.readouterr().err.endswith("Z WARNING executor job j-3: slow\n")
