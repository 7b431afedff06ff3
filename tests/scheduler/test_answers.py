"""What the service answers is as the published schema says: each field is there, and no other."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from coadapt.client.answers_schema import SCHEMA_PATH
from coadapt.core.json_numbers import answer_text
from coadapt.policies.catalogue import make_policy, policy_names
from coadapt.scheduler.views.cluster_views import cluster_view
from coadapt.scheduler.views.explaining import explain
from coadapt.scheduler.views.job_views import job_details, job_row
from coadapt.scheduler.views.waiting import wait_reason

from tests.support.cycles import World

# One job trains and reports, one waits, one is measured, one has failed, and one is for a type that is not there.
DAY = """
submit a unprofiled rigid=2
submit b unprofiled rigid=4
submit c
submit d unprofiled rigid=1
submit e unprofiled types=h100
go
runs a
report a t4
fail d
go
"""


@cache
def validator(verb: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA_PATH.read_text())
    for name, part in schema["$defs"].items():
        part["additionalProperties"] = name == "ExplainView"  # policies add facts there
    found = {**schema["properties"][verb], "$defs": schema["$defs"]}
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def check(answer: Any, verb: str) -> None:
    """Check what `--json` prints of an answer; other fields than those of the schema are wrong, too."""
    validator(verb).validate(json.loads(answer_text(answer)))


@pytest.mark.parametrize("policy", policy_names())
def test_answers_are_as_the_schema_says(policy: str, tmp_path: Path) -> None:
    made = make_policy(policy)
    world = World(tmp_path, "1x t4:4", planner=made)
    world.play(DAY)
    jobs, last, nodes = list(world.store.every()), world.cycle.last_round, world.nodes.snapshot
    assert last is not None
    waits = {job.id: wait_reason(job, last, nodes.cluster) for job in jobs}
    assert any(waits.values())
    check([job_row(job, waits[job.id], nodes.cluster) for job in jobs], "list")
    for job in jobs:
        events = world.store.events(job.id)
        check(job_details(job, events, "w", "o", waits[job.id], nodes.cluster), "describe")
        check(explain(job, last, made, nodes.cluster), "explain")
    events, phases = world.store.events(), world.cycle.phase_times.rows()
    check(cluster_view(nodes, jobs, world.settings, 1, last.plan, events=events, phases=phases), "cluster")


def test_numbers_that_are_none_are_texts_of_the_schema_and_null_among_metrics(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a unprofiled\nwish a t4-000:2\ngo\nruns a")
    row = job_row(world.job("a"))
    row["metrics"], row["lr"] = {"loss": float("nan"), "best": float("-inf")}, float("inf")
    check([row], "list")
    row["metrics"] = {"loss": "NaN"}
    with pytest.raises(jsonschema.ValidationError):
        check([row], "list")
