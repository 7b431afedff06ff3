"""What a user's teams make of a job: its team, its priority, what a template fills in, or why not."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.job import JobSpec
from coadapt.core.job_limits import JobLimitError
from coadapt.core.team_rules import check_priority, completed
from coadapt.core.teams import Priority, Teams
from coadapt.core.teams_file import from_values
from coadapt.core.templates import problem_of

TEAMS = from_values(
    {
        "teams": {
            "vision": {
                "users": ["ada", "bob"],
                "template": {"labels": {"group": "v"}, "resources": {"max_gpus": 4}, "pip": ["einops"]},
            },
            "speech": {"users": ["bob"], "priorities": ["low"]},
        }
    }
)
OPEN = from_values({"teams": {"vision": {"users": ["ada"]}, "rest": {"default": True}}})


def job(**fields: Any) -> JobSpec:
    return JobSpec.model_validate({"name": "a", "script": "train.py", **fields})


def test_without_teams_a_job_stays_as_it_is() -> None:
    spec = job(priority="urgent")
    assert completed(spec, "ada", None).spec is spec
    assert completed(job(team="vision"), "ada", Teams()).spec.team is None


@pytest.mark.parametrize(
    ("user", "fields", "team", "priority"),
    [
        ("ada", {}, "vision", "normal"),
        ("bob", {}, "vision", "normal"),
        ("bob", {"team": "speech"}, "speech", "low"),
        ("ada", {"priority": "high"}, "vision", "high"),
    ],
)
def test_a_job_gets_its_team_and_its_priority(user: str, fields: dict[str, Any], team: str, priority: str) -> None:
    spec = completed(job(**fields), user, TEAMS).spec
    assert (spec.team, spec.priority) == (team, Priority(priority))


def test_a_user_of_no_team_is_of_the_default_one() -> None:
    assert completed(job(), "eve", OPEN).spec.team == "rest"
    assert completed(job(), "ada", OPEN).spec.team == "vision"


@pytest.mark.parametrize(
    ("user", "fields", "sentence"),
    [
        ("eve", {}, "team: eve is in no team, and no team is the default one; ask an operator"),
        ("ada", {"team": "speech"}, "team: speech is no team of ada; accepted: vision"),
        ("bob", {"team": "nlp"}, "team: nlp is no team of bob; accepted: vision, speech"),
        (
            "ada",
            {"priority": "urgent"},
            "priority: urgent is none that jobs of team vision may have; accepted: low, normal, high",
        ),
        (
            "ada",
            {"resources": {"min_gpus": 8}},
            "team: the template of vision does not fit this job: resources: min_gpus: 8 is more than max_gpus 4",
        ),
    ],
)
def test_what_teams_refuse_is_one_sentence(user: str, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(JobLimitError) as refused:
        completed(job(**fields), user, TEAMS)
    assert refused.value.problems == (sentence,)


def test_a_template_fills_in_what_is_left_out_and_nothing_else() -> None:
    found = completed(job(labels={"paper": "fig3"}, pip=[]), "ada", TEAMS)
    assert found.from_template == ("labels.group", "resources")
    assert (found.spec.labels, found.spec.pip, found.spec.resources.max_gpus) == (
        {"paper": "fig3", "group": "v"},
        [],
        4,
    )
    assert completed(job(resources={"max_gpus": 2}), "ada", TEAMS).spec.resources.max_gpus == 2


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ({"labels": {"a": "b"}, "time_limit": "24h"}, ""),
        ({"name": "x"}, "name: each job says this itself; a template has other fields of a job file"),
        ({"colour": "red"}, "colour: unknown field of a job file"),
        (
            {"time_limit": "soon"},
            "time_limit: soon is no span of time; it is seconds",
        ),
    ],
)
def test_a_template_has_fields_of_a_job_file(template: dict[str, Any], problem: str) -> None:
    assert problem_of(template).startswith(problem)
    assert bool(problem_of(template)) == bool(problem)


def test_a_priority_goes_by_the_team_for_which_a_job_counts() -> None:
    check_priority(Priority.URGENT, "vision", None)
    check_priority(Priority.HIGH, "gone", OPEN)
    with pytest.raises(JobLimitError, match=r"priority: urgent is none that jobs of team rest may have"):
        check_priority(Priority.URGENT, "gone", OPEN)
