"""The column DUE of `coadapt list`: how long there is to a deadline, and whether it held."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.cli.show import due
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.views.job_views import job_row

NOW_S = 10_000.0


def row(phase: Phase, finished_s: float | None, deadline: str | None) -> Any:
    spec = JobSpec.model_validate({"name": "j", "script": "t.py", "deadline": deadline})
    state = JobState(phase, submitted_s=NOW_S - 3600.0, finished_s=finished_s)
    return job_row(JobRecord("j-1", 1, spec, state))


@pytest.mark.parametrize(
    ("phase", "finished_s", "deadline", "told"),
    [
        (Phase.QUEUED, None, None, "-"),
        (Phase.QUEUED, None, "2h", "1h00m"),
        (Phase.RUNNING, None, "30m", "30m00s ago"),
        (Phase.SUCCEEDED, NOW_S - 1800.0, "30m", "on time"),
        (Phase.SUCCEEDED, NOW_S - 1799.0, "30m", "missed"),
        (Phase.FAILED, NOW_S - 1900.0, "30m", "missed"),
    ],
)
def test_the_time_to_a_deadline_or_whether_it_held(
    phase: Phase, finished_s: float | None, deadline: str | None, told: str
) -> None:
    assert due(row(phase, finished_s, deadline), NOW_S) == told


@pytest.mark.parametrize(
    ("answer", "told"),
    [("on_time", "1h00m"), ("at_risk", "1h00m (at risk)"), ("cannot_be_met", "1h00m (cannot be met)")],
)
def test_a_deadline_that_may_not_hold_says_so(answer: str, told: str) -> None:
    assert due(row(Phase.RUNNING, None, "2h") | {"deadline": {"answer": answer}}, NOW_S) == told
