"""Texts on the cluster name only one's own jobs, and it costs little to find out whose a job is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.identity import Reader
from coadapt.scheduler.access.others_jobs import MOST_TEXT, OthersJobs

from tests.support.api import Api

BOB = Reader("bob")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    api.job("bob", "mine")
    api.job("ann", "net.v2")
    yield api
    api.world.store.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mine-1 and net.v2-2 are there", "mine-1 and a job are there"),
        ("job 'net.v2-2' has no room", "a job has no room"),
        ("Job net.v2-2 waits.", "A job waits."),
        ("net.v2-2/t4 gets (net.v2-2)", "a job/t4 gets (a job)"),
        ("node t4-000 in 2026-12-01, other-2, net.v2-22", "node t4-000 in 2026-12-01, other-2, net.v2-22"),
        ("", ""),
    ],
)
def test_a_job_of_somebody_else_is_just_a_job(api: Api, text: str, told: str) -> None:
    others = OthersJobs(api.world.store)
    assert others.hidden({"lines": [text]}, BOB) == {"lines": [told]}
    assert "net.v2-2 " not in f"{others.hidden(text, None)} "


def test_an_error_tells_what_it_is_of_only(api: Api) -> None:
    others = OthersJobs(api.world.store)
    assert others.error("job net.v2-2: secret: x", BOB) == "a job; operators see why"
    assert others.error("nothing is told behind a colon", BOB) == "nothing is told behind a colon"


def test_a_long_text_is_cut(api: Api) -> None:
    assert len(OthersJobs(api.world.store).hidden("a-" * 1_000_000, BOB)) == MOST_TEXT + 1


def test_whose_a_job_is_is_looked_up_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    others, looked, find = OthersJobs(api.world.store), list[str](), api.world.store.find

    def finds(job_id: str) -> Any:
        looked.append(job_id)
        return find(job_id)

    monkeypatch.setattr(api.world.store, "find", finds)
    for _ in range(3):
        others.hidden("net.v2-2 and mine-1", BOB)
        assert others.may_read("mine-1", BOB)
    assert sorted(looked) == ["mine-1", "net.v2-2"]
    assert not others.may_read("gone-9", BOB)
