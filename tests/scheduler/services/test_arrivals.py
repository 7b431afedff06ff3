"""The service `arrivals` foretells the next hour by what was submitted. Before it knows enough it is silent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from coadapt.estimators.job_history import EndedJob, SubmittedJob
from coadapt.policies.contract.arrivals import Arrivals
from coadapt.scheduler.services.arrivals import ArrivalService
from coadapt.scheduler.services.catalogue import make_service
from coadapt.scheduler.services.host import FitAtOnce, ServiceHost

DAY_S, HOUR_S = 86_400.0, 3600.0
FEW = {"trees": 30}  # so that a fit takes a second


def days(count: int) -> list[SubmittedJob]:
    """Return jobs of 2 GPUs: some 20 in ten minutes from 8 to 20 o'clock, and 1 at other times."""
    random, found = np.random.default_rng(0), list[SubmittedJob]()
    for slot in range(count * 144):
        busy = 8 <= slot % 144 / 6 < 20
        for at_s in np.sort(random.uniform(0, 600, random.poisson(20 if busy else 1))):
            found.append(SubmittedJob(f"j{len(found)}", "ann", "job", "", 2, 0.0, 600.0 * slot + float(at_s)))
    return found


def host_at(now: float, jobs: list[SubmittedJob], **options: object) -> ServiceHost:
    host = ServiceHost({"arrivals": make_service("arrivals", FEW | options)}, FitAtOnce())
    for number, job in enumerate(jobs):
        if job.submitted_s <= now:
            host.submitted(job, asked=number % 2 == 0)  # both ways in count
    host.advance(now)
    return host


def arriving(now: float, jobs: list[SubmittedJob]) -> Arrivals:
    found = host_at(now, jobs).arriving(now)
    assert found is not None
    return found


def test_the_hour_of_the_day_is_learned() -> None:
    jobs = days(5)
    night, day = (arriving(4 * DAY_S + hour * HOUR_S, jobs) for hour in (2.0, 12.0))
    assert night.jobs < 4
    assert 15 < day.jobs < 25
    assert day.gpus == pytest.approx(2 * day.jobs, rel=0.2)


def test_a_morning_is_foreseen() -> None:
    now, jobs = 9 * DAY_S + 8 * HOUR_S, days(10)
    found = host_at(now, jobs, trees=200, refit_h=48.0).arriving(now)
    assert found is not None
    assert found.jobs > 4, "though some one job came in each ten minutes of the last hour"


def test_nothing_is_told_before_three_days_are_known() -> None:
    now = 2 * DAY_S
    assert host_at(now, days(2)).arriving(now) is None


def test_what_comes_later_changes_no_forecast() -> None:
    now, jobs = 4 * DAY_S + 12 * HOUR_S + 300, days(5)
    early = [job for job in jobs if job.submitted_s < math.floor(now / 600) * 600]
    assert host_at(now, jobs).arriving(now) == host_at(now, early).arriving(now)


def test_a_model_is_kept_and_read_again() -> None:
    now, jobs = 4 * DAY_S, days(4)
    host = host_at(now, jobs)
    document = host.services["arrivals"].document()
    assert document is not None
    again = make_service("arrivals", FEW)
    again.read(document)
    for job in jobs:
        again.observe(job)
    assert again.arriving(now) == host.arriving(now)


def test_ends_of_jobs_count_for_nothing() -> None:
    service = ArrivalService()
    (job, *_) = days(1)
    service.observe(EndedJob(job, job.submitted_s + 5.0, 5.0))
    assert len(service.series(DAY_S)) == 0


def test_only_the_newest_days_are_kept() -> None:
    now, jobs = 8 * DAY_S, days(8)
    service = host_at(now, jobs, days=3).services["arrivals"]
    assert isinstance(service, ArrivalService)
    assert len(service.series(now)) == 3 * 144
    assert len(service._slots) <= 6 * 144 + 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"days": 2}, "days"),
        ({"refit_h": 0}, "refit_h"),
        ({"trees": 0}, "trees"),
        ({"utc_offset_h": 15}, "utc_offset_h"),
        ({"hours": 3}, "hours"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make_service("arrivals", wrong)


def test_a_model_of_something_else_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="arrivals: is no such model: KeyError"):
        make_service("arrivals", {}).read({"lengths": []})
