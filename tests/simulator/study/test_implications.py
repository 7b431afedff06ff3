"""Each implication holds, does not hold or cannot be told, as the trace's own numbers say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from coadapt.simulator.study.verdicts import Implication, Verdict
from coadapt.simulator.traces.final_state import FinalState
from coadapt.simulator.traces.workload import TraceJob

from tests.support.studies import DAY_S, HOUR_S, POOR, a_month, whole

HOLDS, FAILS, UNKNOWN = Verdict.HOLDS, Verdict.FAILS, Verdict.UNKNOWN
Changed = Callable[[TraceJob], TraceJob]
VCS = {"big": 64, "small": 64}
MONTH = a_month(90)


def implication(number: int, jobs: list[TraceJob], gpus: dict[str, int] | None = None) -> Implication:
    found = whole(jobs, VCS if gpus is None else gpus).implications[number - 1]
    assert found.number == number
    return found


def changed(how: Changed, jobs: list[TraceJob] = MONTH) -> list[TraceJob]:
    return sorted(map(how, jobs), key=lambda job: job.submit_s)


def day(job: TraceJob) -> int:
    return int(job.submit_s // DAY_S)


def evenly(job: TraceJob) -> TraceJob:
    """Return the job at a time of its day that is another one each day."""
    hour = (int(job.id.split("-")[1]) * 0.6 + day(job) * 7.3) % 24
    return replace(job, submit_s=day(job) * DAY_S + hour * HOUR_S)


def without_length(job: TraceJob) -> TraceJob:
    return replace(job, duration_s=None, application="bert")


def in_odd_months_twice(jobs: list[TraceJob], gpus: int) -> list[TraceJob]:
    """Return the jobs, of which those of a size come twice in October."""
    again = [replace(job, id=f"{job.id}x") for job in jobs if 30 <= day(job) < 61 and job.gpus == gpus]
    return sorted([*jobs, *again], key=lambda job: job.submit_s)


# What is studied -> (number of the implication, jobs, GPUs of VCs, verdict).
SCENARIOS: dict[str, tuple[int, list[TraceJob], dict[str, int] | None, Verdict]] = {
    "work by day": (1, MONTH, None, HOLDS),
    "work at any hour": (1, changed(evenly), None, FAILS),
    "a week": (1, a_month(7), None, UNKNOWN),
    "no lengths, by day": (1, changed(without_length), None, UNKNOWN),
    "no lengths, at any hour": (1, changed(lambda job: without_length(evenly(job))), None, FAILS),
    "single-GPU jobs vary": (2, in_odd_months_twice(MONTH, 1), None, HOLDS),
    "multi-GPU jobs vary": (2, in_odd_months_twice(MONTH, 16), None, FAILS),
    "single-GPU jobs use much": (2, changed(lambda job: replace(job, gpus=1)), None, FAILS),
    "two months": (2, a_month(58), None, UNKNOWN),
    "one VC lacks what another has": (3, MONTH, {"big": 16, "small": 64}, HOLDS),
    "enough for all": (3, MONTH, {"big": 6400, "small": 6400}, FAILS),
    "VCs of the same jobs": (3, changed(lambda job: replace(job, gpus=2, duration_s=60.0)), None, FAILS),
    "no VCs": (3, changed(lambda job: replace(job, virtual_cluster="")), None, UNKNOWN),
    "sizes of VCs unknown": (3, MONTH, {"": 64}, UNKNOWN),
    "one VC": (3, changed(lambda job: replace(job, virtual_cluster="big")), None, UNKNOWN),
    "few large jobs use most": (4, MONTH, None, HOLDS),
    "large jobs only": (4, changed(lambda job: replace(job, gpus=8)), None, FAILS),
    "single-GPU jobs only": (4, changed(lambda job: replace(job, gpus=1)), None, FAILS),
    "few jobs": (4, MONTH[:20], None, UNKNOWN),
    "no lengths": (4, changed(without_length), None, UNKNOWN),
    "many cancelled": (5, MONTH, None, HOLDS),
    "all completed": (5, changed(lambda job: replace(job, state=FinalState.COMPLETED)), None, FAILS),
    "no states": (5, changed(lambda job: replace(job, state=None)), None, UNKNOWN),
    "short failures that wait": (
        6, changed(lambda job: replace(job, waited_s=600.0)), None, HOLDS,
    ),
    "short failures that do not wait": (6, changed(lambda job: replace(job, waited_s=0.0)), None, FAILS),
    "long failures": (6, changed(lambda job: replace(job, duration_s=9e4)), None, FAILS),
    "short failures, no waits": (6, a_month(90, waits=False), None, UNKNOWN),
    "no failures": (6, changed(lambda job: replace(job, state=FinalState.COMPLETED)), None, UNKNOWN),
    "one user waits": (7, MONTH, None, HOLDS),
    "all users wait": (7, changed(lambda job: replace(job, waited_s=60.0)), None, FAILS),
    "nobody waits": (7, changed(lambda job: replace(job, waited_s=0.0)), None, UNKNOWN),
    "no waits": (7, a_month(90, waits=False), None, UNKNOWN),
    "no users": (7, changed(lambda job: replace(job, user="")), None, UNKNOWN),
    "few users": (7, changed(lambda job: replace(job, user=job.user[:2])), None, UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize(("number", "jobs", "gpus", "verdict"), SCENARIOS.values(), ids=SCENARIOS.keys())
def test_an_implication_is_judged_by_the_trace(
    number: int, jobs: list[TraceJob], gpus: dict[str, int] | None, verdict: Verdict
) -> None:
    found = implication(number, jobs, gpus)
    assert found.verdict is verdict, [(claim.verdict, claim.told) for claim in found.claims]


def test_every_claim_tells_the_traces_numbers_or_why_it_cannot() -> None:
    for jobs in (MONTH, changed(without_length), *POOR.values()):
        for one in whole(jobs).implications:
            assert one.claims
            for claim in one.claims:
                assert claim.told.endswith("."), claim
                assert "nan" not in claim.told, claim
                assert "inf" not in claim.told, claim
                if claim.verdict is not UNKNOWN:
                    assert any(char.isdigit() for char in claim.told), claim


def test_one_claim_that_fails_or_is_unknown_decides() -> None:
    found = implication(3, MONTH, {"big": 6400, "small": 6400})
    assert [claim.verdict for claim in found.claims] == [HOLDS, FAILS]
    found = implication(3, MONTH, {"": 64})
    assert [claim.verdict for claim in found.claims] == [HOLDS, UNKNOWN]


def test_numbers_are_those_of_the_trace() -> None:
    (most, use) = implication(4, MONTH).claims
    assert most.told == "75 % of the jobs have a single GPU."
    gpu_s = [(job.gpus, job.gpus * (job.duration_s or 0.0)) for job in MONTH]
    time = sum(of for gpus, of in gpu_s if gpus == 16) / sum(of for _, of in gpu_s)
    assert f"use {100 * time:.3g} % of the GPU time" in use.told
    (bears,) = implication(7, MONTH).claims
    waited = np.array([job.waited_s or 0.0 for job in MONTH])
    top = sum(sorted((waited[[job.user == f"u{i}" for job in MONTH]].sum() for i in range(40)), reverse=True)[:2])
    assert bears.told.startswith(f"2 users bear {100 * top / waited.sum():.3g} % of it;")
