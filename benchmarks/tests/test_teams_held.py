"""What `fairness_live` reads of a log: a cap that is exceeded, what is lent and when it comes back."""

from __future__ import annotations

from coadapt.core.events import EventKind
from coadapt.core.teams import Team, Teams
from coadapt.scheduler.store.events import Event

from benchmarks.teams_held import Found, TeamJob, moments, read

TEAMS = Teams(teams={"owner": Team(guarantee={"t4": 2}), "guest": Team(cap={"t4": 2})}, lease_s=20.0)
T4 = frozenset({"t4"})
BORROWER, OTHER = (TeamJob("guest", False, T4, (0.0, 100.0)) for _ in range(2))
OWNER = TeamJob("owner", True, T4, (30.0, 90.0))


def placed(number: int, time_s: float, job: str, gpus: int, held: int) -> Event:
    data = {"gpus": gpus, "gpu_type": "t4" if gpus else None, "held": {"t4": held} if held else {}}
    return Event(EventKind.PLACED, time_s, job, data, number=number)


def released(number: int, time_s: float, job: str, held: int) -> Event:
    return Event(EventKind.RELEASED, time_s, job, {"held": {"t4": held} if held else {}}, number=number)


def found(events: list[Event], **jobs: TeamJob) -> Found:
    return read(moments(events, jobs), jobs, TEAMS, {"t4": 2}, 0.0)


def test_gpus_that_a_job_has_not_left_count_for_the_cap_of_its_team() -> None:
    moved = [placed(1, 1.0, "a", 2, 2), placed(2, 5.0, "a", 0, 2), placed(3, 6.0, "b", 1, 1)]
    assert found(moved, a=BORROWER, b=OTHER).over_cap == ["6.0: guest holds 3 t4, its cap is 2"]
    waited = [*moved[:2], released(3, 7.0, "a", 0), placed(4, 8.0, "b", 1, 1)]
    assert not found(waited, a=BORROWER, b=OTHER).over_cap


def test_an_idle_guarantee_is_lent_from_when_a_job_waits_until_it_holds_the_gpus() -> None:
    seen = found([placed(1, 4.0, "a", 2, 2)], a=BORROWER)
    assert seen.lent_s == [4.0]
    assert seen.lent == 2


def test_a_guarantee_comes_back_late_by_what_is_beyond_the_lease_of_the_job_that_had_to_leave() -> None:
    events = [
        placed(1, 15.0, "a", 1, 1),
        placed(2, 16.0, "b", 1, 1),
        placed(3, 36.0, "a", 0, 1),
        released(4, 37.0, "a", 0),
        placed(5, 38.0, "own", 1, 1),
    ]
    seen = found(events, a=BORROWER, b=OTHER, own=OWNER)
    assert seen.waited_s == [8.0]
    assert seen.back_s == [3.0]  # the lease of a ended at 35
    assert seen.reclaimed == ["a"]


def test_a_guarantee_whose_gpus_are_free_owes_nothing_to_leases() -> None:
    events = [placed(1, 15.0, "a", 1, 1), placed(2, 34.0, "own", 1, 1)]
    seen = found(events, a=BORROWER, own=OWNER)
    assert seen.back_s == [4.0]
    assert not seen.reclaimed
