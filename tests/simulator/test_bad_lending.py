"""Bad input of team lending in simulations: one sentence each, that names field and value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload

GOOD = "teams: {a: {guarantee: {t4: 6}}, b: {guarantee: {t4: 2}}}"
CELLS = {"locality": "cells", "stops_borrowers": False}

# File of teams, options of `anticipatory`, (virtual cluster, GPUs) of a job, and what is said.
BAD_LENDING = [
    (
        "teams: {a: {guarantee: {t4: 6}}, b: {guarantee: {t4: 3}}}", {}, ("a", 1),
        "--shares: guarantee.t4: 6 of a + 3 of b is 9, and the cluster has 8 GPUs of that type",
    ),
    (
        "teams: {a: {guarantee: {t4: 6}}, b: {guarantee: {t4: 0}}}", {}, ("b", 1),
        "--shares: job j asks for 1 GPU, and its team b is guaranteed none; anticipatory would never serve it",
    ),
    (
        GOOD, {}, ("b", 3),
        "job j asks for 3 GPUs, and its team b is guaranteed at most 2; anticipatory would never serve it",
    ),
    (
        GOOD, {}, ("c", 1),
        "--shares: job j (user '', virtual cluster 'c') is of no team, and there is no default team",
    ),
    (
        GOOD, {}, ("", 1),
        "--shares: job j (user '', virtual cluster '') is of no team, and there is no default team",
    ),
    ("teams: {a: {guarantee: {t4: 6}}, a: {guarantee: {t4: 2}}}", {}, ("a", 1), "line 1: teams.a is given twice"),
    (
        "teams: {a: {guarantee: {t4: 8}, cells: {t4: [8]}}}", CELLS, ("a", 1),
        "--shares: teams.a.cells.t4: no node holds a cell of 8 GPUs; they have at most 4",
    ),
    (
        "teams: {a: {guarantee: {t4: 6}, cells: {t4: [3, 3]}}}", CELLS, ("a", 1),
        "teams.a.cells.t4: 3 is no cell; 1, 2, 4, 8 … GPUs are",
    ),
    (GOOD, {"windows_s": [60, 5]}, ("a", 1), "5 follows 60; windows above 0 s that rise are accepted"),
    (GOOD, {"windows_s": [-1]}, ("a", 1), "-1 follows 0; windows above 0 s that rise are accepted"),
    (GOOD, {"slack": -0.5}, ("a", 1), "slack: -0.5 is not accepted, must be a number of at least 0"),
]  # fmt: skip


@pytest.mark.parametrize(("teams", "options", "job", "told"), BAD_LENDING, ids=[row[3] for row in BAD_LENDING])
def test_bad_input_is_one_sentence(
    tmp_path: Path, teams: str, options: dict[str, object], job: tuple[str, int], told: str
) -> None:
    (tmp_path / "teams.yaml").write_text(teams)
    nodes = read_cluster("2x t4:4")
    jobs = Workload.of([TraceJob("j", 0.0, job[1], 60.0, virtual_cluster=job[0])])
    under = Conditions(shares=tmp_path / "teams.yaml")
    with pytest.raises(ValueError, match=re.escape(told)) as refused:
        simulation(jobs, nodes, "anticipatory", options, source_of(False, None, nodes), under)
    assert "\n" not in str(refused.value)


def test_other_policies_serve_teams_without_a_guarantee(tmp_path: Path) -> None:
    (tmp_path / "teams.yaml").write_text(GOOD)
    nodes = read_cluster("2x t4:4")
    jobs = Workload.of([TraceJob("j", 0.0, 4, 60.0, virtual_cluster="b")])
    under = Conditions(shares=tmp_path / "teams.yaml")
    outcome = simulation(jobs, nodes, "fifo", {}, source_of(False, None, nodes), under).run()
    assert outcome.jct_s[0] == pytest.approx(60.0)
