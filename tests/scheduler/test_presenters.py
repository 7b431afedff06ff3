"""What `coadapt list --json` says of jobs that wait: the code that `explain` gives them, whatever policy runs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from coadapt.cli import main
from coadapt.core.decisions import Placed, Refused, Waiting, WaitReason
from coadapt.core.schemas import JobRow
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.lazy import LazyMapping
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.per_pool import PerPool
from coadapt.scheduler.presenters import explanation_outside_round, job_details, job_row, wait_reason

from tests.support.cycles import World


def rows_of(world: World) -> dict[str, JobRow]:
    """The rows of all jobs by name, as the service answers `list`."""
    last, nodes = world.cycle.last_round, world.nodes.snapshot.cluster
    return {
        row["name"]: row for row in (job_row(j, wait_reason(j, last, nodes)) for j in world.store.jobs.values())
    }


def codes(world: World) -> dict[str, str | None]:
    return {name: row["wait_reason"] for name, row in rows_of(world).items()}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fifo", {"a": None, "large": "too_large", "b": "no_room"}),
        ("las", {"a": None, "large": "too_large", "b": "behind_others"}),
        ("sia", {"a": None, "large": "too_large", "b": "outbid"}),
    ],
)
def test_a_job_that_the_last_round_left_out_has_the_code_that_explain_gives(
    tmp_path: Path, policy: str, expected: dict[str, str | None]
) -> None:
    chooses = PerPool(partial(make_policy, policy))
    world = World(tmp_path, "1x t4:2", planner=chooses)
    world.play(
        """
        submit a rigid=2 unprofiled kept
        go
        runs a
        submit large rigid=4 unprofiled
        submit b rigid=2 unprofiled
        go 70
        """
    )
    assert codes(world) == expected
    done = world.cycle.last_round
    assert done is not None
    for name, code in expected.items():
        assert chooses.explain(world.ids[name], done.round, done.plan).to_dict()["reason"] == code


def test_a_job_outside_the_round_has_a_code_too_and_one_that_has_gpus_or_has_ended_none(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2")
    world.play("submit new unprofiled")
    assert codes(world) == {"new": "next_round"}
    world.play(
        """
        submit measured
        submit elsewhere types=h100
        wish new t4-000:1
        go
        """
    )
    assert codes(world) == {"new": None, "measured": "measuring", "elsewhere": "no_gpu_type"}
    assert rows_of(world)["new"]["status"] == "starting"
    world.play("runs new\nfinish new")
    assert codes(world)["new"] is None
    for name in ("measured", "elsewhere"):
        outside = explanation_outside_round(world.job(name), world.nodes.snapshot.cluster)
        assert outside["reason"] == codes(world)[name]


def test_a_job_that_lost_its_gpus_since_the_last_round_waits_for_the_next(tmp_path: Path) -> None:
    world = World(tmp_path, "2x t4:2")
    world.play("submit a unprofiled\nwish a t4-000:2\ngo\nruns a\nnodes 1x a100:2\nstep")
    assert world.job("a").target == ()
    assert codes(world) == {"a": "next_round"}


class Choosy:
    """Refuses one job, fails to say why another waits, and says it of the third."""

    def plan(self, round: Round) -> Plan:
        ids: list[str] = round.columns.ids.tolist()

        def decision(at: int) -> Placed | Waiting | Refused:
            if ids[at].startswith("odd"):
                return Refused("No number of GPUs suits it.")
            if ids[at].startswith("mute"):
                raise RuntimeError("no idea")
            return Waiting(WaitReason.HAD_ITS_TURN, "It rests.")

        return Plan({}, decisions=LazyMapping(ids, decision))


def test_a_policy_that_refuses_or_fails_to_say_why_hides_no_job(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2", planner=Choosy())
    world.play("submit odd unprofiled\nsubmit mute unprofiled\nsubmit plain unprofiled\ngo")
    assert codes(world) == {"odd": "no_configuration", "mute": "not_said", "plain": "had_its_turn"}


def test_the_command_prints_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, "1x t4:2")
    world.play("submit a types=h100\ngo")

    class Client:
        def list(self) -> list[JobRow]:
            return list(rows_of(world).values())

    monkeypatch.setattr(main, "_connect", Client)
    assert main.run(["list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["wait_reason"] == "no_gpu_type"
    job = world.job("a")
    assert job_details(job, [], waits=WaitReason.NO_GPU_TYPE)["wait_reason"] == "no_gpu_type"
