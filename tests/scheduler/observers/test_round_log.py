"""What rounds decided can be read later, with what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coadapt.cli.rounds import lines

from tests.support.api import Api
from tests.support.cycles import RUNS


def rounds(api: Api, user: str = "ops", **asked: Any) -> list[dict[str, Any]]:
    return list(api.ask("GET", "/v1/rounds", user, params=asked).json()["items"])


def test_a_round_tells_what_it_placed_moved_and_stopped_and_why_others_wait(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.world.play(RUNS)
    api.world.play("wish a t4-000:4\ngo\nruns a\nwish a\ngo\nsubmit b unprofiled\ngo")
    found = rounds(api)[::-1]
    named = [{kind: row[kind] for kind in ("placed", "moved", "stopped") if row[kind]} for row in found]
    changes = [one for one in named if one]
    assert changes == [
        {"placed": [{"job": "a-1", "before": "", "after": "2xt4"}]},
        {"moved": [{"job": "a-1", "before": "2xt4", "after": "4xt4"}]},
        {"stopped": [{"job": "a-1", "before": "4xt4", "after": ""}]},
    ]
    assert found[-1]["counts"]["waiting"] == 2
    assert sum(found[-1]["waiting"].values()) == 2
    assert set(found[-1]["phases"]) >= {"observe", "snapshot", "plan", "place", "apply"}
    assert found[-1]["objective"] is None, "this policy has none"
    text = "\n".join(lines(found[-1]))
    assert "2 jobs" in text
    assert "waiting: 2 (" in text
    assert "placed: a-1 2xt4" in "\n".join(lines(next(row for row in found if row["placed"])))
    api.world.store.close()


def test_a_round_without_a_plan_is_there_with_its_error(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.world.play("submit a unprofiled\nbreak policy\ngo")
    newest = rounds(api)[0]
    assert newest["round"] is None
    assert "cannot plan" in newest["errors"][0]
    assert lines(newest)[1].startswith("  error: the policy did not plan round")
    api.world.store.close()


def test_a_user_sees_counts_of_all_and_names_of_own_jobs(tmp_path: Path) -> None:
    api = Api(tmp_path)
    mine, theirs = api.job("bob", "mine"), api.job("ann", "theirs")
    api.world.ids |= {"mine": mine, "theirs": theirs}
    api.world.play("go\nmeasured mine t4\nmeasured theirs t4\nwish mine t4-000:1\nwish theirs t4-000:1\ngo")
    (row,) = [one for one in rounds(api, "bob") if one["counts"]["placed"]][:1]
    assert ({one["job"] for one in row["placed"]}, row["counts"]["placed"]) == ({mine}, 2)
    assert {one["job"] for one in rounds(api, "vic")[0]["placed"]} <= {mine, theirs}
    api.world.store.close()


def test_rounds_come_in_pages_and_retention_bounds_them(tmp_path: Path) -> None:
    api = Api(tmp_path)
    for _ in range(5):
        api.world.cycle.ask_round()
        api.world.play("go")
    numbers = [row["number"] for row in rounds(api, limit=500)]
    first = api.ask("GET", "/v1/rounds", params={"limit": 2}).json()
    second = api.ask("GET", "/v1/rounds", params={"limit": 2, "cursor": first["next"]}).json()
    assert [row["number"] for row in first["items"] + second["items"]] == numbers[:4]
    limits = api.world.settings.retention.model_copy(update={"most_rounds": 2})
    api.world.settings.take(api.world.settings.model_copy(update={"retention": limits}))
    api.service.parts.pruning.prune()
    assert [row["number"] for row in rounds(api)] == numbers[:2]
    assert api.ask("GET", "/v1/rounds", params={"limit": 0}).status_code == 422
    api.world.store.close()
