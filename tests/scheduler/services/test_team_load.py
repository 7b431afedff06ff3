"""What teams are taken to ask for: as much as of late, and all of their guarantee while nothing is known."""

from __future__ import annotations

import math

import pytest
from coadapt.estimators.job_history import SubmittedJob
from coadapt.scheduler.services.catalogue import make_services
from coadapt.scheduler.services.host import FitAtOnce, ServiceHost

MIN_S = 60.0


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
    day = 24 * 60
    host = host_of(submitted("a", "vision", 0, 8), submitted("b", "vision", 2 * day, 1), days=1.0)
    assert new_load(host, 2 * day, "vision", 720) == 1


@pytest.mark.parametrize("option", ["recent", "days"])
def test_options_below_what_makes_sense_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=option):
        make_services({"team_load": {option: 0}})
