"""Deadlines of jobs that cannot run, or whose metrics are odd: each is told in a sentence, and harms nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.policies.per_pool import PerPool

from tests.support.cycles import World

STORIES = {
    "more GPUs than there are": """
        submit a unprofiled rigid=8 deadline=1h
        go
        ? a said its deadline: cannot be met, runs as best effort
        after 60
        go
        ? did a admitted, deadline
    """,
    "a GPU type that is not there": """
        submit a unprofiled types=h100 deadline=1h
        go
        ? a said its deadline: cannot be met, runs as best effort
        after 60
        go
        ? did a deadline, deadline
    """,
    "a metric that is NaN": """
        submit a unprofiled rigid=4 deadline=1h target=0.9
        go
        ? sent assign a 4xt4
        runs a
        foretell a 20 2
        go
        evaluated a 1000 0.5
        evaluated a 2000 nan
        go
        ? a running
        ? did a admitted, placed, deadline, running, deadline
    """,
    "a metric that jumps": """
        submit a unprofiled rigid=4 deadline=1h target=0.9
        go
        ? sent assign a 4xt4
        runs a
        foretell a 20 2
        go
        evaluated a 1000 0.5
        evaluated a 2000 1e30
        evaluated a 3000 -1e30
        evaluated a 4000 0.51
        go
        ? a running
        ? did a admitted, placed, deadline, running, deadline
    """,
    "an end that is foretold long after the deadline": """
        submit a unprofiled rigid=4 deadline=60s
        go
        foretell a 600 1
        go
        ? a said its deadline: cannot be met, runs as best effort, expected end in 10 h ± 60 s
        after 70
        go
        ? a said its last deadline, 60 s after submission, has passed: it goes on as best effort
    """,
}


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_bad_deadlines(tmp_path: Path, story: str) -> None:
    policy = PerPool(lambda: make_policy("unisched"))
    World(tmp_path, "1x t4:4", planner=policy, traits=policy.traits).play(STORIES[story])
