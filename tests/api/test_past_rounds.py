"""Why a job had what it had is known of any past round that is kept, and names no job that one may not see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.settings import Settings
from coadapt.scheduler.desks.past_rounds import MOST_PRICES, thinned
from coadapt.scheduler.rounds.chosen_policy import planner_of
from coadapt.scheduler.store import rounds

from tests.support.api import Api, service_of
from tests.support.cycles import World


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """Yield an API whose scheduler plans by the policy `coadapt`."""
    api = Api(tmp_path)
    api.world.store.close()
    api.world = World(tmp_path, "1x t4:4", planner=planner_of(Settings(policy="coadapt")), policy="coadapt")
    api.service.parts = service_of(api.world).parts
    api.service.desks = service_of(api.world).desks
    yield api
    api.world.store.close()


def trains(api: Api, name: str) -> str:
    """Submit a job of ann's that is measured on t4, and let it train; return its id."""
    world = api.world
    world.ids[name] = api.job("ann", name)
    world.play(f"go\nmeasured {name} t4\ngo\nruns {name}\nreport {name} t4")
    return world.ids[name]


def asked(api: Api, job_id: str, what: str, user: str = "ops", **query: Any) -> Any:
    answer = api.ask("GET", f"/v1/jobs/{job_id}/{what}", user, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_round_tells_what_a_job_could_have_had_also_later(api: Api) -> None:
    job_id = trains(api, "a")
    then = asked(api, job_id, "options")
    (chosen,) = [one for one in then["options"] if one["chosen"]]
    assert (chosen["gpu_type"], chosen["gpus"]) == ("t4", held(api, "a"))
    assert {one["gpus"] for one in then["options"]} >= {1}
    assert set(then["prices"]) == {"t4"}
    for _ in range(5):
        api.world.play("after 60\ngo")
    assert asked(api, job_id, "options")["round"] > then["round"]
    again = asked(api, job_id, "options", round=then["round"])
    assert again == then
    by_time = asked(api, job_id, "options", at_s=then["time_s"] + 0.5)
    assert by_time["round"] == then["round"]


def held(api: Api, name: str) -> int:
    return sum(slot.gpus for slot in api.world.job(name).target)


def test_options_that_hardly_change_are_kept_once(api: Api) -> None:
    trains(api, "a")
    for _ in range(30):
        api.world.play("after 60\ngo")
    with api.world.store.database.reading() as connection:
        rows = rounds.read(connection, None, 100)
    assert sum("options" in row for row in rows) < 8 < len(rows)
    assert all("options" not in row for row in api.ask("GET", "/v1/rounds").json()["items"]), (
        "they are of one's own"
    )


def test_a_resize_says_why_and_hides_the_names_of_others(api: Api) -> None:
    first = trains(api, "a")
    mine = api.job("bob", "b")
    api.world.ids["b"] = mine
    api.world.play("go\nruns a\ngo\nmeasured b t4")
    for _ in range(4):
        api.world.play("after 60\ngo\nruns a\ngo" + ("\nruns b" if held(api, "b") else ""))
    rows = asked(api, first, "resizes")
    assert rows[0]["before"] == ""
    assert rows[0]["because"] == []
    told = " ".join(cause for row in rows[1:] for cause in row["because"])
    assert len(rows) > 1
    assert told
    hidden = asked(api, first, "resizes", "ann")
    assert mine not in str(hidden)
    assert [row["time_s"] for row in hidden] == [row["time_s"] for row in rows]


def test_a_round_that_never_was_is_a_problem(api: Api) -> None:
    job_id = trains(api, "a")
    answer = api.ask("GET", f"/v1/jobs/{job_id}/options", params={"round": 10_000})
    assert (answer.status_code, "never" in answer.json()["detail"]) == (404, True)
    page = api.ask("GET", f"/jobs/{job_id}", params={"round": 10_000})
    assert (page.status_code, "kept no longer" in page.text) == (404, True)


def test_the_page_of_a_past_round_shows_its_grid(api: Api) -> None:
    job_id = trains(api, "a")
    number = asked(api, job_id, "options")["round"]
    page = api.ask("GET", f"/jobs/{job_id}", "ann", params={"round": number}).text
    assert f"Why, in round {number}" in page
    assert 'class="grid"' in page
    assert "it has these" in page


def test_prices_of_a_day_are_told_to_all_who_may_read(api: Api) -> None:
    trains(api, "a")
    for _ in range(3):
        api.world.play("after 60\ngo")
    found = api.ask("GET", "/v1/prices", "vic").json()
    assert set(found["prices"]) == {"t4"}
    moments = [at for at, _ in found["prices"]["t4"]]
    assert moments == sorted(moments)
    assert found["since_s"] < moments[0] <= moments[-1] <= found["until_s"]


def test_a_day_of_rounds_is_thinned_to_its_last_price_of_each_span() -> None:
    found = [(float(at), {"t4": float(at)}) for at in range(0, 86_400, 60)]
    thin = thinned(found, 0.0, 86_400.0)
    assert len(thin) <= MOST_PRICES
    assert thin[-1] == found[-1]
