"""What rounds decided can be read later, with what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli.rounds import lines
from coadapt.policies.contract.explanation import Explanation, explained
from coadapt.policies.contract.round import Note, Plan, Round
from coadapt.scheduler.store.rounds import append

from tests.support.api import Api
from tests.support.cycles import RUNS, WishingPolicy


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


class Telling(WishingPolicy):
    """A policy that says something on each job, and fails over one."""

    def __init__(self, mine: str, theirs: str) -> None:
        super().__init__()
        self.fails: str | None = None
        self.notes = [Note("the search ended at a limit")]
        self.notes += [Note(f"job {id}: its reservation cannot be met", id) for id in (mine, theirs)]
        self.notes += [Note(f"a place is kept for job {theirs}, beside {mine} on t4-000")]

    def plan(self, round: Round) -> Plan:
        if self.fails is not None:
            raise KeyError(self.fails)
        return replace(super().plan(round), notes=self.notes)

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        return explained(job, round, plan)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[Api, str, str]]:
    """A cluster of two users, whose policy tells of the jobs of both."""
    api = Api(tmp_path)
    mine, theirs = api.job("bob", "mine"), api.job("ann", "theirs")
    api.world.ids |= {"mine": mine, "theirs": theirs}
    policy: Any = Telling(mine, theirs)
    api.world.cycle.plan_by(policy)
    api.service.parts.policy.now = policy
    api.world.play("go\nmeasured mine t4\nmeasured theirs t4\ngo")
    yield api, mine, theirs
    api.world.store.close()


def everything(api: Api, user: str, job_id: str) -> dict[str, Any]:
    paths = ("/v1/rounds", "/v1/cluster", "/v1/machines", "/v1/health", f"/v1/jobs/{job_id}/explain")
    found = {path: api.ask("GET", path, user).json() for path in paths}
    found["/v1/events"] = api.ask("GET", "/v1/events", user, params={"follow": False, "last": 1000}).json()
    return found


def test_notes_of_rounds_tell_a_user_of_own_jobs_only(shared: tuple[Api, str, str]) -> None:
    api, mine, theirs = shared
    own = [
        "the search ended at a limit",
        f"a place is kept for a job, beside {mine} on t4-000",
        f"job {mine}: its reservation cannot be met",
    ]
    assert rounds(api, "bob")[0]["notes"] == own
    assert set(own) <= set(api.ask("GET", "/v1/cluster", "bob").json()["notes"]) | {own[1]}
    assert theirs not in json.dumps(everything(api, "bob", mine))
    for seer in ("vic", "ops"):
        assert len(rounds(api, seer)[0]["notes"]) == 4
        assert json.dumps(everything(api, seer, mine)["/v1/cluster"]).count(theirs) >= 2
    assert "job_notes" not in rounds(api)[0]


def test_an_error_of_a_round_tells_a_user_nothing_of_others(shared: tuple[Api, str, str]) -> None:
    api, mine, theirs = shared
    api.world.cycle._policy.fails = f"{theirs} of ann has no room"
    api.world.cycle.ask_round()
    api.world.play("go")
    guard = api.world.cycle._guard
    guard.failed(None, ValueError(f"the hook failed for {theirs}: a secret of ann"))
    (told,) = rounds(api, "bob")[0]["errors"]
    assert told.startswith("the policy did not plan round ")
    assert told.endswith("; operators see why")
    found = json.dumps(everything(api, "bob", mine))
    assert theirs not in found
    assert "has no room" not in found
    assert "of ann" not in found
    assert "the hook failed for a job; operators see why" in found
    assert f"{theirs} of ann has no room" in rounds(api)[0]["errors"][0]
    assert f"{theirs} of ann has no room" in json.dumps(everything(api, "ops", mine)["/v1/cluster"])


def test_a_round_of_an_earlier_version_tells_a_user_no_notes(shared: tuple[Api, str, str]) -> None:
    api, _, theirs = shared
    changes: dict[str, Any] = {kind: [] for kind in ("placed", "moved", "stopped", "measured")}
    told = changes | {"errors": [], "notes": [f"job {theirs}: odd"]}
    api.world.store.write(append(1.0, told))
    assert rounds(api, "bob")[0]["notes"] == []
    assert rounds(api)[0]["notes"] == [f"job {theirs}: odd"]
