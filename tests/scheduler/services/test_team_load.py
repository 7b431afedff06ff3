"""What teams are taken to ask for: as much as of late, and all of their guarantee while nothing is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from coadapt.estimators.job_history import EndedJob, StartedJob, SubmittedJob
from coadapt.scheduler.services.catalogue import make_services
from coadapt.scheduler.services.host import FitAtOnce, ServiceHost
from coadapt.scheduler.services.team_load import TeamLoadService

MIN_S = 60.0
DAY = 24 * 60  # min


def submitted(id: str, team: str, minute: float, gpus: int) -> SubmittedJob:
    return SubmittedJob(id, "ada", "train", "", gpus, 0.0, MIN_S * minute, team=team)


def host_of(*jobs: SubmittedJob, **options: float) -> ServiceHost:
    host = ServiceHost(make_services({"team_load": options}), FitAtOnce())
    for at, job in enumerate(jobs):
        host.submitted(job, asked=at % 2 == 0)  # told of, or asked about: both count once
    return host


def new_load(host: ServiceHost, now_min: float, team: str, horizon_min: float) -> float:
    host.advance(MIN_S * now_min)
    found = host.foresight(MIN_S * now_min)
    assert found is not None
    return found.new_load(team, MIN_S * horizon_min)


def test_a_team_asks_again_for_the_most_of_late_and_an_unknown_one_for_anything() -> None:
    host = host_of(submitted("a", "vision", 1, 4), submitted("b", "vision", 2, 2), submitted("c", "speech", 3, 1))
    assert new_load(host, 4, "vision", 5) == 6
    assert new_load(host, 4, "speech", 5) == 1
    assert new_load(host, 4, "guests", 5) == math.inf
    assert new_load(host, 52, "vision", 5) == 0, "nothing came within ten windows"
    assert new_load(host, 52, "vision", 60) == 6


def test_what_comes_later_is_not_known_yet() -> None:
    host = host_of(submitted("a", "vision", 1, 1), submitted("b", "vision", 9, 8))
    assert new_load(host, 8, "vision", 5) == 1


def test_old_submissions_are_forgotten() -> None:
    host = host_of(submitted("a", "vision", 0, 8), submitted("b", "vision", 2 * DAY, 1), days=1.0)
    assert new_load(host, 2 * DAY, "vision", 720) == 1


def office(days: int, drifts: int | None = None, team: str = "vision") -> list[SubmittedJob]:
    """Return a job of 4 GPUs every ten minutes from 9 to 17 o'clock; on one day at night instead."""
    found = []
    for day in range(days):
        first = DAY * day + 60 * (1 if day == drifts else 9)
        found += [submitted(f"{day}-{n}", team, first + 10 * n, 4) for n in range(48)]
    return found


def test_after_some_days_it_is_learned_when_jobs_come() -> None:
    host = host_of(*office(9))
    assert new_load(host, 2.2 * DAY, "vision", 60) == 0, "nothing came in ten windows"
    assert new_load(host, 2.75 * DAY, "vision", 60) == 24, "as long as nothing is learned, jobs come at any time"
    morning, evening = (8 * DAY + 60 * hour for hour in (10, 18))
    assert new_load(host, morning, "vision", 60) == 24
    assert new_load(host, evening, "vision", 60) == 0
    assert new_load(host, evening, "vision", 30) == 0, "what does not come within an hour does not within a half"
    assert new_load(host, evening, "vision", 2000) > 0, "beyond the longest window jobs always come"
    assert new_load(host, evening, "guests", 60) == math.inf


def test_without_learning_jobs_always_come() -> None:
    host = host_of(*office(9), learned=False)
    assert new_load(host, 8 * DAY + 60 * 18, "vision", 60) == 24


def test_a_team_that_came_otherwise_of_late_is_expected_at_any_time_until_it_comes_as_usual() -> None:
    host = host_of(*office(14, drifts=9), refit_h=1000.0, least_days=8.0)
    evening = 60 * 18
    assert new_load(host, 8 * DAY + evening, "vision", 60) == 0
    assert host.distrusted() == {}
    assert new_load(host, 9 * DAY + evening, "vision", 60) == 20, "as many as of late"
    assert host.distrusted()["team_load/vision/3600"] == (
        "team vision: jobs that came within 60 min were not foretold in the last day; "
        "they are expected at any time"
    )
    assert new_load(host, 13 * DAY + evening, "vision", 60) == 0
    assert host.distrusted() == {}


def test_a_model_outlives_a_restart_and_one_of_other_windows_is_refused() -> None:
    first = host_of(*office(9))
    first.advance(MIN_S * 8 * DAY)
    document = first.services["team_load"].document()
    assert document is not None
    again = TeamLoadService()
    again.read(document)
    assert again.document() == document
    other = make_services({"team_load": {"windows_s": [60.0, 600.0]}})["team_load"]
    with pytest.raises(ValueError, match="is of windows of 300, 3600, 43200 s, and 60, 600 are wanted"):
        other.read(document)
    assert other.document() is None


class OnMachine(FitAtOnce):
    """Fits in virtual time, on a machine with a CPU that is idle or not, and counts fits."""

    def __init__(self, idle: bool) -> None:
        super().__init__()
        self._idle, self.begun = idle, 0

    def idle(self) -> bool:
        return self._idle

    def begin(self, name: str, fit: Callable[[], Any]) -> None:
        self.begun += 1
        super().begin(name, fit)


def test_where_a_cpu_is_idle_it_learns_sooner_than_daily() -> None:
    begun = []
    for idle in (False, True):
        fitter = OnMachine(idle)
        host = ServiceHost({"team_load": TeamLoadService()}, fitter)
        for job in office(7):
            host.submitted(job)
        for hour in range(7 * 24):
            host.advance(3600.0 * hour)
        begun.append(fitter.begun)
    assert begun == [4, 8], "from the fourth day on: each day, and each half"


def test_the_class_of_a_length_is_told_by_jobs_like_it() -> None:
    service = TeamLoadService()
    for n in range(3):
        job = submitted(f"j{n}", "vision", n, 2)
        assert service.foretell(job) is None
        service.observe(StartedJob(job, job.submitted_s + 10.0))
        service.observe(EndedJob(job, job.submitted_s + 200.0, 190.0))
    told = service.foretell(submitted("new", "vision", 9, 2))
    assert told is not None
    assert (told.high_s, told.basis) == (300.0, "3 earlier jobs of its owner and name")


def test_windows_that_do_not_rise_are_refused() -> None:
    with pytest.raises(ValueError, match="60 follows 300; windows above 0 s that rise are accepted"):
        make_services({"team_load": {"windows_s": [300, 60]}})


@pytest.mark.parametrize("option", ["recent", "days", "least_days", "refit_h"])
def test_options_below_what_makes_sense_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=option):
        make_services({"team_load": {option: 0}})
