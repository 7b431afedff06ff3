"""An array is a job of each of its values: all are submitted or none, and each is a job like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli.arrays import expanded, folded, summed
from coadapt.cli.exit_codes import JobNotFound
from coadapt.core.job import JobSpec
from coadapt.core.job_limits import JobLimitError
from coadapt.core.job_relations import AfterJobs
from coadapt.core.teams_file import from_values

from tests.support.api import Api
from tests.support.packages import NAME
from tests.support.stored_rows import read_back

GRID = {
    "args": ["--lr", "{lr}", "{other}"],
    "env": {"SEED": "s{seed}"},
    "array": {"grid": {"lr": [0.1, 1], "seed": ["a", "b"]}},
}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def submit(api: Api, key: str = "k", owner: str = "ann", **fields: Any) -> str:
    spec = JobSpec.model_validate({"name": "sweep", "script": "train.py", **(fields or GRID)})
    return str(api.service.submit(spec.model_dump_json(exclude_unset=True), NAME, key, "same", owner))


def rows(api: Api, user: str = "ann", **query: Any) -> list[Any]:
    found: list[Any] = api.ask("GET", "/v1/jobs", user, params=query).json()["items"]
    return found[::-1]


class Client:
    """A client of an app in this process."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def jobs(self, *, array: str) -> list[Any]:
        return rows(self._api, array=array)


def test_each_combination_is_a_job_with_its_values(api: Api) -> None:
    api.job("ann", "a")
    assert submit(api) == "sweep+2"
    jobs = [api.world.store.get(f"sweep-{number}") for number in range(2, 6)]
    assert [(job.spec.args, job.spec.env) for job in jobs] == [
        (["--lr", lr, "{other}"], {"SEED": seed}) for lr in ("0.1", "1") for seed in ("sa", "sb")
    ]
    assert {(job.array, job.spec.array, job.script_key, job.package) for job in jobs} == {
        ("sweep+2", None, "same", NAME)
    }
    assert [job.array_index for job in jobs] == [0, 1, 2, 3]
    assert jobs[1].array_values == {"lr": "0.1", "seed": "b"}
    assert read_back(jobs[1]) == jobs[1]
    assert [row["id"] for row in rows(api, array="sweep+2")] == [job.id for job in jobs]


def test_the_same_key_gives_the_same_array(api: Api) -> None:
    assert submit(api) == submit(api) == "sweep+1"
    assert len(rows(api)) == 4
    assert submit(api, "k2") == "sweep+5"


def test_a_list_of_values_and_a_command(api: Api) -> None:
    fields = {
        "script": "",
        "command": ["run", "{x}-{y}"],
        "array": {"values": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    }
    submit(api, **fields)
    assert [api.world.store.get(f"sweep-{n}").spec.command for n in (1, 2)] == [["run", "1-2"], ["run", "3-4"]]


def test_an_array_that_is_too_many_leaves_nothing(api: Api) -> None:
    api.world.cycle.teams.apply(from_values({"user_limits": {"queued": 3}}), "ops", 0.0)
    with pytest.raises(JobLimitError, match=r"user ann has 0 queued jobs, and these 4 jobs would exceed its 3"):
        submit(api)
    assert rows(api) == []


def test_a_job_starts_after_all_of_an_array(api: Api) -> None:
    array = submit(api)
    after = submit(api, "k2", args=[], after={"any": [array]})
    assert api.world.store.get(after).spec.after == AfterJobs(any=[f"sweep-{n}" for n in range(1, 5)])
    with pytest.raises(JobLimitError, match=r"after.ok: no array sweep\+9"):
        submit(api, "k3", args=[], after=["sweep+9"])
    with pytest.raises(JobLimitError, match=r"after.ok: no array sweep\+1"):
        submit(api, "k4", owner="bob", args=[], after=[array])


def test_a_changed_file_is_no_array(api: Api) -> None:
    submit(api)
    api.service.change("sweep-1", "pause", "p")
    spec = JobSpec.model_validate({"name": "sweep", "script": "train.py", **GRID}).model_dump_json()
    with pytest.raises(JobLimitError, match="array: a changed file is of one job"):
        api.service.resume_changed("sweep-1", spec, NAME, "", "k")


def test_verbs_act_on_the_jobs_of_an_array_that_go_on(api: Api) -> None:
    client: Any = Client(api)
    array = submit(api)
    api.service.cancel("sweep-2")
    assert expanded(client, [array, "sweep-1", "x"], lambda _, name: name, False) == [
        "sweep-1",
        "sweep-3",
        "sweep-4",
        "x",
    ]
    assert expanded(client, [array], lambda _, name: name, True) == [f"sweep-{n}" for n in range(1, 5)]
    with pytest.raises(JobNotFound, match=r"no array sweep\+9"):
        expanded(client, ["sweep+9"], lambda _, name: name, False)


def test_an_array_is_one_line(api: Api) -> None:
    first = api.job("ann", "a")
    array = submit(api)
    api.service.cancel("sweep-3")
    found = folded(rows(api), lambda one: rows(api, array=one))
    assert [row["id"] for row in found] == [first, array]
    assert found[1]["status"] == "3 waiting, 1 cancelled"
    assert found[1]["finished_s"] is None
    for number in (2, 4, 5):
        api.service.cancel(f"sweep-{number}")
    assert summed(rows(api, array=array))["status"] == "4 cancelled"
    assert summed(rows(api, array=array))["finished_s"] is not None
