"""What a user relies on: a submitted job is never lost, and the log tells what happened."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.core.reports import MeasuredAt, StepRow
from coadapt.core.slot import Slot
from coadapt.estimators.curves.curve import Curve, MetricCurve
from coadapt.estimators.measurements import Measurements
from coadapt.scheduler.jobs.lifecycle import NEXT, IllegalTransition, advance, check
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.failures import StoreFailure
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.store.store import Store
from sqlalchemy import Connection

from tests.support.stored_rows import store_earlier
from tests.support.stores import raw

SPEC = JobSpec(name="digits", script="train.py")
MEASURED = Measurements().with_rows("t4", [StepRow(1, 1, 8, 0, 0.1, 0.0, 5)])
SLOT = Slot("n1", "l1", (0,), "t4", emulated=True, cpus=0.5)


def submitted(store: Store, key: str = "k") -> JobRecord:
    return store.submit(SPEC, 100.0, idempotency_key=key, package="abc")[0]


def to(store: Store, job: JobRecord, *phases: Phase) -> JobRecord:
    for phase in phases:
        job = store.save(replace(job, state=advance(job.state, phase, 110.0)), now=110.0)
    return job


def test_a_job_survives_closing_and_opening_the_store(where: Path | str) -> None:
    store = Store(where)
    job = replace(
        submitted(store),
        sequence=4,
        target=(SLOT,),
        held=(SLOT, replace(SLOT, devices=(1,))),
        group=(SLOT,),
        pending_since_s=12.0,
        profiles=(ProfileRun("t4", ok=True), ProfileRun("a100", slot=SLOT, started_s=3.0, sequence=2)),
        measurements=MEASURED,
        largest_gpus={"t4": 2},
        metrics={"loss": 0.25},
        measured_at={"loss": MeasuredAt(3, 1920)},
        curve=MetricCurve("loss", Curve((640.0, 1920.0), (0.5, 0.25))),
        report={"batch_size": 64},
    )
    store.save(job, Event(EventKind.RUNNING, 101.0, job.id, {"text": "runs"}))
    store.close()
    again = Store(where)
    assert again.get(job.id) == job
    assert [event.kind for event in again.events(job.id)] == ["submit", "running"]


def test_slots_of_one_place_are_kept_each_with_its_own_amounts(where: Path | str) -> None:
    store = Store(where)
    jobs = [submitted(store, key) for key in "ab"]
    for job, cpus in zip(jobs, (1.0, 4.0), strict=True):
        store.save(replace(job, target=(replace(SLOT, cpus=cpus),)))
    store.close()
    again = Store(where)
    assert [again.get(job.id).target[0].cpus for job in jobs] == [1.0, 4.0]


def test_slots_of_an_earlier_version_get_the_lowest_gpus_that_no_other_job_has(where: Path | str) -> None:
    store = Store(where)
    first, second, third = (submitted(store, key) for key in "abc")
    two, pair = tuple(replace(SLOT, devices=(i,)) for i in range(2)), (replace(SLOT, devices=(0, 1)),)
    run = ProfileRun("t4", slot=replace(SLOT, devices=(2,)), started_s=3.0)
    store.save(replace(first, target=two[:1], held=two, group=two[:1], last_grant=((1, two[0]),), profiles=(run,)))
    store.save(replace(second, target=pair, held=pair, group=pair))
    store.save(replace(third, held=(replace(SLOT, devices=(1,)),)))
    for job in (first, second):
        store_earlier(where, store.get(job.id))
    store.close()
    again = Store(where)
    found = again.get(first.id)
    assert [slot.devices for slot in found.occupied] == [(0,), (2,), (3,)]
    assert found.target == found.group == (found.last_grant[0][1],) == found.held[:1]
    assert again.get(second.id).held == (replace(SLOT, devices=(4, 5)),)
    assert [slot.devices for slot in again.get(third.id).held] == [(1,)]
    assert again.unnamed == {first.id, second.id}


def test_submitting_twice_with_one_key_makes_one_job(store: Store) -> None:
    first, new = store.submit(SPEC, 1.0, idempotency_key="same")
    again, new_again = store.submit(SPEC, 2.0, idempotency_key="same")
    other, _ = store.submit(SPEC, 3.0, idempotency_key="other")
    assert (first, new, new_again) == (again, True, False)
    assert (first.id, other.id) == ("digits-1", "digits-2")


@pytest.mark.parametrize(
    ("table", "column"), [("job_files", "spec"), ("job_details", "details"), ("measurements", "measured")]
)
def test_a_job_that_cannot_be_read_keeps_what_it_has_and_the_others_stay(
    where: Path | str, table: str, column: str
) -> None:
    store = Store(where)
    bad, good = submitted(store, "1"), submitted(store, "2")
    store.save(replace(bad, target=(SLOT,), held=(SLOT,), measurements=MEASURED))
    store.close()
    raw(where, f"update {table} set {column}='{{' where job_id=:v0", bad.id)
    again = Store(where)
    found = again.get(bad.id)
    assert found.quarantine.startswith("its record cannot be read: ")
    assert (found.target, found.held, found.phase) == ((SLOT,), (SLOT,), Phase.SUBMITTED)
    assert again.get(good.id) == good
    assert again.submit(SPEC, 1.0, idempotency_key="1") == (found, False)
    assert submitted(again, "3").id == "digits-3"
    ended = again.save(
        replace(found, state=advance(found.state, Phase.CANCELLED, 5.0), held=(), target=()), now=5.0
    )
    again.close()
    assert raw(where, f"select {column} from {table} where job_id=:v0", bad.id)[0] == ("{",), "nothing is lost"
    last = Store(where)
    assert (last.get(bad.id).phase, last.get(bad.id).held) == (ended.phase, ())
    last.close()


def test_a_job_can_be_read_again_once_its_rows_are_mended(where: Path | str) -> None:
    store = Store(where)
    job = submitted(store)
    spec = raw(where, "select spec from job_files")[0][0]
    store.close()
    raw(where, "update job_files set spec='{'")
    again = Store(where)
    raw(where, "update job_files set spec=:v0", spec)
    assert again.get(job.id).quarantine
    assert again.read_again(job.id) == again.get(job.id) == job
    assert not again.unreadable
    again.close()


def test_an_unknown_job_is_named(store: Store) -> None:
    with pytest.raises(KeyError, match="no job nothing-7"):
        store.get("nothing-7")


@pytest.mark.parametrize("end", [Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED])
def test_a_job_that_has_ended_stays_ended(store: Store, end: Phase) -> None:
    job = to(store, submitted(store), Phase.QUEUED, Phase.RUNNING, end)
    assert job.state.started_s == job.state.finished_s == 110.0
    with pytest.raises(IllegalTransition, match=f"cannot follow {end}"):
        store.save(replace(job, state=replace(job.state, phase=Phase.RUNNING)))
    assert store.get(job.id).phase is end


def test_the_phases_lead_from_submission_to_an_end_and_from_there_only_to_another_submission() -> None:
    for phase, following in NEXT.items():
        assert (following == {Phase.SUBMITTED}) == phase.is_terminal
        for other in Phase:
            if other in following or other is phase:
                check(phase, other)
            else:
                with pytest.raises(IllegalTransition):
                    check(phase, other)


def test_of_several_jobs_all_are_written_or_none(store: Store) -> None:
    one, two = submitted(store, "1"), submitted(store, "2")
    to(store, two, Phase.QUEUED, Phase.SUCCEEDED)
    queued = replace(one, state=advance(one.state, Phase.QUEUED, 1.0))
    illegal = replace(two, state=replace(two.state, phase=Phase.RUNNING))
    with pytest.raises(IllegalTransition):
        store.save_all([queued, illegal], [Event(EventKind.PLAN, 1.0)], now=1.0)
    assert store.get(one.id).phase is Phase.SUBMITTED
    assert "plan" not in {event.kind for event in store.events()}


def test_time_held_is_summed_over_intervals_and_windows(store: Store) -> None:
    def held(start: float, gpus: int, batch: int | None) -> UsageInterval:
        return UsageInterval("j", start, None, "t4", gpus, 1, batch, 0.1)

    store.hold(held(100.0, 1, None))
    store.hold(held(105.0, 1, 32))  # the first report: still the same interval
    store.hold(held(110.0, 1, 32))
    store.hold(held(120.0, 4, 32))
    store.hold(held(130.0, 4, 64))
    store.release("j", 140.0)
    spans = [(i.start_s, i.end_s, i.gpus, i.batch_size) for i in store.intervals("j")]
    assert spans == [(100.0, 120.0, 1, 32), (120.0, 130.0, 4, 32), (130.0, 140.0, 4, 64)]
    assert store.held_time("j").gpu_s(999.0) == 20 + 40 + 40
    assert store.held_time("j").served_s(125.0, 150.0) == 15.0
    assert store.held_time("j").served_s(90.0, 200.0) == 40.0


def test_sums_are_the_same_after_the_store_was_opened_again(where: Path | str) -> None:
    store = Store(where)
    store.hold_profile(UsageInterval("j", 90.0, None, "t4", 1, 1))
    store.hold(UsageInterval("j", 100.0, None, "t4", 2, 1))
    store.release("j", 95.0, "profiling", "t4")
    store.hold(UsageInterval("j", 110.0, None, "t4", 4, 1))
    told = store.held_time("j").gpu_s(130.0), store.held_time("j").served_s(105.0, 130.0)
    store.close()
    again = Store(where)
    assert (
        (again.held_time("j").gpu_s(130.0), again.held_time("j").served_s(105.0, 130.0)) == told == (105.0, 25.0)
    )


def seen(store: Store, job_id: str) -> tuple[object, ...]:
    return store.get(job_id), store.held_time(job_id).gpu_s(500.0), store.held_time(job_id).served_s(0.0, 500.0)


def fill(store: Store) -> None:
    """Let the disk have no room for another page."""

    def limit(connection: Connection) -> None:
        pages = connection.exec_driver_sql("pragma page_count").scalar()
        connection.exec_driver_sql(f"pragma max_page_count={pages}")

    store.database.write(limit)


def change_and_fail(store: Store, job: JobRecord, what: str) -> None:
    """Change what is known of a job, then write what the disk has no room for."""
    before = seen(store, job.id)
    with store.together():
        match what:
            case "begin" | "change":
                store.hold(UsageInterval(job.id, 200.0, None, "t4", 4, 1, 32))
            case "end":
                store.release(job.id, 200.0)
            case "profile":
                store.hold_profile(UsageInterval(job.id, 200.0, None, "a100", 1, 1))
            case "record":
                end = advance(job.state, Phase.SUCCEEDED, 200.0)
                store.save(replace(job, state=end, retired=True), now=200.0)
        assert seen(store, job.id) != before
        store.log(Event(EventKind.PLAN, 200.0, None, {"text": "x" * 100_000}))


@pytest.mark.parametrize("what", ["begin", "change", "end", "profile", "record"])
def test_on_a_full_disk_sums_and_records_stay_what_the_file_says(tmp_path: Path, what: str) -> None:
    where = tmp_path / "jobs.sqlite"
    store = Store(where)
    job = to(store, submitted(store), Phase.QUEUED, Phase.RUNNING)
    if what != "begin":
        store.hold(UsageInterval(job.id, 120.0, None, "t4", 2, 1, 32))
    before = seen(store, job.id)
    fill(store)
    with pytest.raises(StoreFailure, match="the store cannot be written: database or disk is full"):
        change_and_fail(store, job, what)
    assert seen(store, job.id) == before
    assert list(store.unretired) == [job.id]
    store.close()
    again = Store(where)
    assert seen(again, job.id) == before
    again.release(job.id, 210.0)
    assert again.held_time(job.id).gpu_s(500.0) == (0.0 if what == "begin" else 180.0)


def test_a_job_whose_submission_fails_is_not_there_and_can_be_submitted_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    first = submitted(store, "1")
    fill(store)
    large = JobSpec(name="large", script="t.py", env={"WORDS": "x" * 100_000})
    with pytest.raises(StoreFailure, match="the store cannot be written: database or disk is full"):
        store.submit(large, 1.0, idempotency_key="2")
    assert [job.id for job in store.every()] == list(store.unretired) == [first.id]
    store.database.write(lambda connection: connection.exec_driver_sql("pragma max_page_count=1000000"))
    assert store.submit(large, 1.0, idempotency_key="2")[1]


def retire_and_start_again(store: Store, job: JobRecord) -> None:
    with store.together():
        store.save(replace(job, retired=True), now=120.0)
        assert job.id not in store.unretired
        store.save(replace(job, state=replace(job.state, phase=Phase.RUNNING)), now=120.0)


def test_jobs_keep_their_order_when_the_retirement_of_one_fails(store: Store) -> None:
    one, two = submitted(store, "1"), submitted(store, "2")
    one = to(store, one, Phase.QUEUED, Phase.CANCELLED)
    with pytest.raises(IllegalTransition):
        retire_and_start_again(store, one)
    assert list(store.unretired) == [one.id, two.id]


def test_profile_runs_are_no_service(store: Store) -> None:
    store.hold_profile(UsageInterval("j", 0.0, None, "t4", 1, 1))
    store.hold_profile(UsageInterval("j", 0.0, None, "a100", 1, 1))
    store.release("j", 10.0, "profiling", "t4")
    assert [(i.gpu_type, i.end_s, i.phase) for i in store.intervals()] == [
        ("t4", 10.0, "profiling"),
        ("a100", None, "profiling"),
    ]
    assert store.held_time("j").served_s(0.0, 10.0) == 0.0


def test_the_end_of_a_job_ends_what_it_held(store: Store) -> None:
    job = to(store, submitted(store), Phase.QUEUED, Phase.RUNNING)
    store.hold(UsageInterval(job.id, 50.0, None, "t4", 1, 1))
    to(store, job, Phase.CANCELLED)
    assert store.intervals(job.id)[0].end_s == 110.0


def test_profiles_are_remembered_by_fingerprint(store: Store) -> None:
    assert store.recall("f") is None
    store.remember({"f": Measurements()}, 1.0)
    store.remember({"f": MEASURED, "g": MEASURED}, 2.0)
    assert store.recall("f") == store.recall("g") == MEASURED


WRITER = """
import sys
from dataclasses import replace
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.scheduler.jobs.lifecycle import advance
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.store import Store

store = Store(sys.argv[1])
spec = JobSpec(name="j", script="t.py")
for i in range(100000):
    job, _ = store.submit(spec, 1.0, idempotency_key=f"{sys.argv[2]}-{i}")
    job = replace(job, state=advance(job.state, Phase.QUEUED, 2.0), sequence=i)
    store.save(job, Event(EventKind.ADMITTED, 2.0, job.id, {"i": i}), now=2.0)
    print(job.id, flush=True)
"""


def test_killing_a_writer_at_any_moment_loses_nothing_it_had_confirmed(tmp_path: Path) -> None:
    path, confirmed = tmp_path / "jobs.sqlite", []
    for round in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(round)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        confirmed += [writer.stdout.readline().strip() for _ in range(3 + 7 * round)]
        os.kill(writer.pid, signal.SIGKILL)
        confirmed += [line.strip() for line in writer.stdout.read().splitlines()]
        writer.wait()
        writer.stdout.close()
    store = Store(path)
    found = list(store.every())
    assert set(confirmed) <= {job.id for job in found}
    for job_id in confirmed:
        assert store.get(job_id).phase is Phase.QUEUED
        assert [event.kind for event in store.events(job_id)] == ["submit", "admitted"]
    # Whatever was not confirmed is whole too: submitted, or submitted and queued.
    assert all(job.phase in (Phase.SUBMITTED, Phase.QUEUED) for job in found)


def test_events_of_the_cluster_are_the_newest_that_are_of_no_job_and_no_plan(store: Store) -> None:
    job = submitted(store)
    for at in range(12):
        store.log(Event(EventKind.ERROR, float(at), None, {"text": f"no {at}"}))
        store.log(
            Event(EventKind.PLAN, float(at), None, {}), Event(EventKind.ERROR, float(at), job.id, {"text": "a"})
        )
    assert [event.data["text"] for event in store.cluster_events(3)] == ["no 9", "no 10", "no 11"]
