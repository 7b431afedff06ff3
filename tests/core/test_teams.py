"""Teams: who is in which, what a file may say, and what a cluster must have for it."""

from __future__ import annotations

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.teams import Priority, Teams, in_pool, misfits, price_of
from coadapt.core.teams_file import TeamsFileError, read

THREE = b"""
teams:
  vision: {users: [ada, bob], share: 2, guarantee: {a100: 8}, cap: {a100: 12}}
  speech: {users: [bob], guarantee: {t4: 2, a100@lab: 1}, default: true}
  idle: {}
prices: {a100: 3}
"""
NODES = Cluster((Node("n1", "a100", 8), Node("n2", "t4", 4), Node("n3", "a100", 4, pool="lab")))


def test_a_file_says_who_is_in_which_team() -> None:
    teams = read(THREE)
    assert teams.teams_of("bob") == ("vision", "speech")
    assert teams.teams_of("nobody") == ("speech",)
    assert Teams().teams_of("ada") == ()
    assert (teams.lease_s, teams.teams["vision"].share, teams.teams["idle"].share) == (1800.0, 2.0, 1.0)


def test_types_of_a_pool_are_named_as_prices_are() -> None:
    counts = {"a100": 8, "a100@lab": 1, "t4": 2}
    assert in_pool(counts, None) == {"a100": 8, "t4": 2}
    assert in_pool(counts, "lab") == {"a100": 1}


def test_each_step_of_priority_doubles_what_progress_is_worth() -> None:
    assert [one.factor for one in Priority] == [0.5, 1.0, 2.0, 4.0]


def test_prices_are_the_operators_then_the_programs() -> None:
    assert price_of({"a100": 3.0}, {"a100": 9.0}, "a100") == 3.0
    assert price_of({}, {"a100": 9.0}, "a100") == 9.0
    assert price_of({}, {"a100": float("nan")}, "a100") == 1.0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("teams: {a: {share: 0}}", "teams.a.share: 0 is not a number above 0"),
        ("teams: {a: {share: .nan}}", "teams.a.share: NaN is not a finite number"),
        ("teams: {a: {share: true}}", "teams.a.share: true is not a number"),
        ("teams: {a: {guarantee: {t4: 8}, cap: {t4: 4}}}", "teams.a.cap.t4: 4 is less than its guarantee of 8"),
        (
            "teams: {a: {guarantee: {t4: 7}, cells: {t4: [4, 3]}}}",
            "teams.a.cells.t4: 3 is no cell; 1, 2, 4, 8 … GPUs",
        ),
        ("teams: {a: {cells: {t4: [4]}}}", "teams.a.cells.t4: 4 GPUs in all, and its guarantee is 0"),
        ("teams: {a: {guarantee: {t4: 7}, cells: {t4: []}}}", "teams.a.cells.t4: "),
        ("teams: {a: {guarantee: {t4: -1}}}", "teams.a.guarantee.t4: -1 is not a number of at least 0"),
        (
            "teams: {a: {default: true}, b: {default: true}}",
            "teams.b.default: a is the default team already; one may be",
        ),
        ("teams: {a: {usres: [x]}}", "teams.a.usres: unknown field; known: users, share, guarantee, cap"),
        ("user_limits: {quued: 3}", "user_limits.quued: unknown field; known: queued, running, gpus"),
        ("teams: {a: {limits: {quued: 3}}}", "teams.a.limits.quued: unknown field; known: queued, running, gpus"),
        ("lease_s: -1", "lease_s: -1 is not a number of at least 0"),
        ("half_life_h: 0", "half_life_h: 0 is not a number above 0"),
        ("- a", "it is not a mapping of fields, such as teams"),
        ("teams: [", "line 1: not YAML"),
        ("teams: {'a b': {}}", "teams.a b: "),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(TeamsFileError) as refused:
        read(text.encode())
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (THREE.decode(), []),
        (
            "teams: {a: {guarantee: {a100: 8}}, b: {guarantee: {a100: 1}}}",
            ["guarantee.a100: 8 of a + 1 of b is 9, and the cluster has 8 GPUs of that type"],
        ),
        (
            "teams: {a: {cap: {h100: 8}}}",
            ["teams.a.cap.h100: h100 is no GPU type of the nodes outside pools; it has a100, t4"],
        ),
        (
            "teams: {a: {guarantee: {a100@prod: 8}}}",
            ["teams.a.guarantee.a100@prod: pool prod has no nodes; the cluster's pools are lab"],
        ),
        (
            "teams: {a: {guarantee: {t4@lab: 1}}}",
            ["teams.a.guarantee.t4@lab: t4 is no GPU type of pool lab; it has a100"],
        ),
        (
            "teams: {a: {guarantee: {t4: 8}, cells: {t4: [8]}}}",
            [
                "teams.a.cells.t4: no node holds a cell of 8 GPUs; they have at most 4",
                "guarantee.t4: 8 of a is 8, and the cluster has 4 GPUs of that type",
            ],
        ),
        ("teams: {a: {guarantee: {t4: 2}, cells: {t4: [2]}}, b: {guarantee: {t4: 2}, cells: {t4: [1, 1]}}}", []),
        (
            "teams: {a: {guarantee: {a100: 4}}, b: {guarantee: {a100: 9}, cells: {a100: [8, 1]}}}",
            [
                "cells.a100: the nodes do not hold the cells of all teams at once",
                "guarantee.a100: 4 of a + 9 of b is 13, and the cluster has 8 GPUs of that type",
            ],
        ),
        ("prices: {v100: 1}", ["prices.v100: v100 is no GPU type of the nodes outside pools; it has a100, t4"]),
    ],
)
def test_a_cluster_must_have_what_teams_are_promised(text: str, sentences: list[str]) -> None:
    assert misfits(read(text.encode()), NODES) == sentences
