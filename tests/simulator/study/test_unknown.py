"""What a trace does not tell is said, each in one sentence or two."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.training_config import Adaptivity
from coadapt.simulator.traces.workload import TraceJob

from tests.support.studies import DAY_S, POOR, a_month, whole

FULL = a_month(30)
# What a trace lacks -> its jobs, and what is told.
LACKS = {
    "lengths": ([replace(job, duration_s=None, application="bert") for job in FULL], "gives no job a length"),
    "waits": (a_month(30, waits=False), "Use is therefore the demand"),
    "users": ([replace(job, user="") for job in FULL], "names no users"),
    "states": ([replace(job, state=None) for job in FULL], "does not say how jobs ended"),
    "virtual clusters": ([replace(job, virtual_cluster="") for job in FULL], "names no virtual clusters"),
    "some lengths": (POOR["some lengths"], "1 of 2 jobs have no length"),
    "some names": (POOR["some names"], "1 jobs have no user"),
    "some states": (POOR["one state"], "Of 1 jobs it is not known how they ended"),
    "sizes": ([replace(job, adaptivity=Adaptivity.ADAPTIVE) for job in FULL], "may change the GPUs of 1,200 jobs"),
    "a human span": ([TraceJob("a", 0.0, 1, 1.0), TraceJob("b", 60 * 366 * DAY_S, 1, 1.0)], "more than 50 years"),
}


@pytest.mark.parametrize(("jobs", "told"), LACKS.values(), ids=LACKS.keys())
def test_what_is_lacking_is_told(jobs: list[TraceJob], told: str) -> None:
    assert any(told in sentence for sentence in whole(jobs).unknown)


def test_a_trace_that_knows_all_says_only_what_any_trace_lacks() -> None:
    (sentence,) = whole(FULL, {"big": 64, "small": 64}).unknown
    assert sentence.startswith("Jobs that were submitted before the trace are not in it")


def test_a_trace_without_dates_and_a_cluster_that_is_not_known_are_told() -> None:
    found = " ".join(whole(FULL, began=None).unknown)
    assert "`--began` says when that was" in found
    assert "`--cluster` says it" in found
