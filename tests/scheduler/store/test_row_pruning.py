"""Old rows go in small transactions. Those of living jobs, and the newest of each kind, stay."""

from dataclasses import replace
from pathlib import Path

from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.estimators.measurements import Measurements
from coadapt.scheduler.jobs.lifecycle import advance
from coadapt.scheduler.store.doctor import examine
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.store.metrics import MetricsHistory, Point
from coadapt.scheduler.store.row_pruning import EVENTS, INTERVALS, RowPruning
from coadapt.scheduler.store.store import Store

DAY_S = 86_400.0
SPEC = JobSpec(name="a", script="train.py")


def live(store: Store, at_s: float, *, ends: bool) -> str:
    """Have a job train for half a day from a moment on."""
    job, _ = store.submit(SPEC, at_s, idempotency_key=str(at_s))
    for phase in (Phase.PROFILING, Phase.QUEUED, Phase.RUNNING):
        job = store.save(replace(job, state=advance(job.state, phase, at_s)))
    for hours in range(10):
        store.hold(UsageInterval(job.id, at_s + 3600 * hours, None, "t4", 1 + hours, 1))
    if ends:
        end_s = at_s + DAY_S / 2
        over = replace(job, state=advance(job.state, Phase.SUCCEEDED, end_s), retired=True)
        store.save(over, Event(EventKind.FINISH, end_s, job.id), now=end_s)
    return job.id


def pruning(store: Store) -> RowPruning:
    return RowPruning(store, lambda took_s: True)


def test_old_events_and_intervals_go_but_for_living_jobs_and_the_newest(store: Store, where: Path | str) -> None:
    for day in range(20):
        live(store, day * DAY_S, ends=day != 3)
        store.log(Event(EventKind.LEARNED, (day + 0.6) * DAY_S, None, {"text": "learned"}))
    rows, now = pruning(store), 20 * DAY_S
    last = rows.last_old(EVENTS, 10, None, now)
    many, size = rows.count(EVENTS, last)
    assert (rows.remove_old(EVENTS, last), size > many) == (many, True)
    left = [event for event in store.events(last=1000) if event.time_s < 10 * DAY_S]
    assert {event.job_id for event in left} == {"a-4"}
    assert rows.remove_old(INTERVALS, rows.last_old(INTERVALS, 10, None, now)) == 9 * 10
    assert {one.job_id for one in store.intervals() if one.start_s < 10 * DAY_S} == {"a-4"}
    assert store.held_time("a-4").served
    assert examine(where).findings == []


def test_the_newest_row_stays_whatever_its_age(store: Store) -> None:
    live(store, 0.0, ends=True)
    rows = pruning(store)
    for log in (EVENTS, INTERVALS):
        rows.remove_old(log, rows.last_old(log, 1, 1, 1e9))
    assert (len(store.events()), len(store.intervals())) == (1, 1)
    assert store.events()[0].number == store.last_event


def test_too_many_rows_go_the_oldest_first(store: Store) -> None:
    for number in range(50):
        store.log(Event(EventKind.LEARNED, float(number), None))
    rows = pruning(store)
    assert rows.remove_old(EVENTS, rows.last_old(EVENTS, None, 10, 50.0)) == 40
    assert [event.time_s for event in store.events()] == [float(number) for number in range(40, 50)]


def test_a_job_goes_with_all_its_rows(store: Store, where: Path | str) -> None:
    gone, stays = live(store, 0.0, ends=True), live(store, DAY_S, ends=True)
    history = MetricsHistory(store)
    for at in range(30):
        history.add(gone, {"loss": Point(float(at), 1.0), "accuracy": Point(float(at), 0.5)})
    rows = pruning(store)
    assert rows.newest() == {stays}
    assert rows.bytes_of([gone]) > 500
    (job, other) = rows.oldest()
    assert (job.id, other.id, rows.ended()) == (gone, stays, 2)
    assert rows.remove_job(job)
    assert store.find(gone) is None
    assert examine(where).counts == {"jobs": 1, "job_files": 1, "events": 2, "intervals": 10}
    assert examine(where).findings == []
    assert history.read(gone) == {}


def test_a_job_that_begins_again_meanwhile_stays(store: Store) -> None:
    live(store, 0.0, ends=True)
    rows = pruning(store)
    (job,) = rows.oldest()
    again = replace(store.get(job.id), retired=False)
    store.save(replace(again, state=advance(again.state, Phase.SUBMITTED, 2 * DAY_S)))
    assert not rows.remove_job(job)
    assert store.get(job.id).active
    assert (len(store.events(job.id)), len(store.intervals(job.id))) == (2, 10)


def test_it_stops_when_it_is_told_to(store: Store) -> None:
    for number in range(1000):
        store.log(Event(EventKind.LEARNED, float(number), None))
    rows = RowPruning(store, lambda took_s: False)
    assert 0 < rows.remove_old(EVENTS, 900) < 900


def test_profiles_go_by_age_and_number(store: Store) -> None:
    for at in range(6):
        store.remember({f"script-{at}": Measurements()}, at * DAY_S, owner="ann")
    rows = pruning(store)
    assert rows.old_profiles(None, None, 6 * DAY_S) == []
    assert rows.old_profiles(4.5, 5, 6 * DAY_S) == [("ann", "script-0"), ("ann", "script-1")]
    assert rows.remove_profiles(rows.old_profiles(None, 2, 0.0)) == 4
    assert [at for at in range(6) if store.recall(f"script-{at}", "ann") is not None] == [4, 5]


def test_packages_that_a_job_names_are_known(store: Store) -> None:
    store.submit(SPEC, 1.0, idempotency_key="1", package="p1")
    assert pruning(store).named_packages(["p1", "p2"]) == {"p1"}
