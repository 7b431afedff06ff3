"""`coadapt priority`, `hold`, `release`, `bump` and `extend` do what they say, also to arrays, or say why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.core.errors import JobStateError
from coadapt.core.job import JobSpec

from tests.support.api import Api
from tests.support.packages import NAME


class Client:
    """A client of an app in this process, as its owner ann."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def jobs(self, **query: Any) -> list[Any]:
        told = {key: value for key, value in query.items() if key != "most"}
        found: list[Any] = self._api.ask("GET", "/v1/jobs", "ann", params=told).json()["items"]
        return found[::-1]

    def set_priority(self, job_id: str, priority: str) -> bool:
        return self._change(job_id, "priority", {"priority": priority})

    def extend(self, job_id: str, by_s: float) -> bool:
        return self._change(job_id, "extend", {"by_s": by_s})

    def hold(self, job_id: str) -> bool:
        return self._change(job_id, "hold")

    def release(self, job_id: str) -> bool:
        return self._change(job_id, "release")

    def bump(self, job_id: str) -> bool:
        return self._change(job_id, "bump")

    def _change(self, job_id: str, verb: str, body: Any = None) -> bool:
        headers = {"Idempotency-Key": f"{job_id} {verb} {body} {id(object())}"}
        answer = self._api.ask("POST", f"/v1/jobs/{job_id}/{verb}", "ann", json=body, headers=headers)
        if answer.status_code == 409:
            raise JobStateError(answer.json()["detail"])
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["changed"])


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    api = Api(tmp_path)
    monkeypatch.setattr(main, "_connect", lambda: Client(api))
    fields = {
        "name": "sweep",
        "script": "t.py",
        "args": ["{x}"],
        "array": {"grid": {"x": [1, 2]}},
        "time_limit": "1h",
    }
    text = JobSpec.model_validate(fields).model_dump_json(exclude_unset=True)
    assert api.service.submit(text, NAME, "k", "", "ann") == "sweep+1"
    yield api
    api.world.store.close()


@pytest.mark.parametrize(
    ("words", "code", "lines"),
    [
        (["priority", "sweep-1", "high"], Exit.OK, ["sweep-1 high"]),
        (["priority", "sweep+1", "normal"], Exit.OK, ["sweep-1 was so before", "sweep-2 was so before"]),
        (["hold", "sweep+1"], Exit.OK, ["sweep-1 held", "sweep-2 held"]),
        (["release", "sweep-2"], Exit.OK, ["sweep-2 was so before"]),
        (["bump", "sweep-1", "sweep-2"], Exit.OK, ["sweep-2 bumped", "sweep-1 bumped"]),
        (["extend", "sweep+1", "30m"], Exit.OK, ["sweep-1 extended", "sweep-2 extended"]),
        (
            ["priority", "sweep-1", "huge"],
            Exit.USAGE,
            ["coadapt: huge is no priority; it is one of low"],
        ),
        (
            ["extend", "sweep-1", "soon"],
            Exit.USAGE,
            ["coadapt: SPAN: soon is no span of time; it is a number"],
        ),
        (["hold", "sweep+9"], Exit.NOT_FOUND, ["coadapt: no array sweep+9; "]),
        (["list", "--array", "sweep+9"], Exit.NOT_FOUND, ["coadapt: no array sweep+9; "]),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, list) else None,
)
def test_a_verb_does_what_it_says(
    api: Api, words: list[str], code: Exit, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == code
    told = capsys.readouterr()
    said = (told.out + told.err).splitlines()
    assert [line[: len(want)] for line, want in zip(said, lines, strict=True)] == lines


def test_a_job_that_has_ended_is_told_of_and_the_others_follow(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.service.cancel("sweep-1")
    assert main.run(["hold", "sweep-1", "sweep-2"]) == Exit.USAGE
    told = capsys.readouterr()
    assert told.err == "coadapt: sweep-1 has ended (cancelled), so hold does not fit it\n"
    assert told.out == "sweep-2 held\n"


def test_what_an_operator_holds_only_an_operator_releases(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    def ops(verb: str) -> Any:
        headers = {"Idempotency-Key": f"ops {verb}"}
        return api.ask("POST", f"/v1/jobs/sweep-1/{verb}", "ops", headers=headers).json()

    assert main.run(["hold", "sweep-1"]) == Exit.OK
    assert ops("hold") == {"changed": True}, "it takes the place of the user's"
    capsys.readouterr()
    assert main.run(["release", "sweep-1"]) == Exit.USAGE
    told = "sweep-1 is held by the operator ops, and only an operator releases it"
    assert capsys.readouterr().err == f"coadapt: {told}\n"
    job = api.ask("GET", "/v1/jobs/sweep-1", "ann").json()
    assert (job["on_hold"], job["held_by"], job["reason"]) == (True, "ops", "held by the operator ops")
    button = 'data-post="/v1/jobs/sweep-1/release"'
    assert button not in api.ask("GET", "/jobs/sweep-1", "ann").text
    assert button in api.ask("GET", "/jobs/sweep-1", "ops").text
    assert ops("release") == {"changed": True}
    assert main.run(["hold", "sweep-1"]) == Exit.OK
    assert main.run(["release", "sweep-1"]) == Exit.OK, "a user's own hold stays the user's"
