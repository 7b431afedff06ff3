"""What a user relies on: a submitted job is never lost, and the log tells what happened."""

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.core.reports import MeasuredAt, StepRow
from coadapt.core.slot import Slot
from coadapt.estimators.measurements import Measurements
from coadapt.scheduler.job_lifecycle import NEXT, IllegalTransition, advance, check
from coadapt.scheduler.record import JobRecord, ProfileRun, placement_of
from coadapt.scheduler.store import Event, Store, StoreError, UsageInterval
from hypothesis import given
from hypothesis import strategies as st

from tests.support.earlier_records import without_names

SPEC = JobSpec(name="digits", script="train.py")
MEASURED = Measurements().with_rows("t4", [StepRow(1, 1, 8, 0, 0.1, 0.0, 5)])
SLOT = Slot("n1", "l1", (0,), "t4", emulated=True, cpus=0.5)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "jobs.sqlite")


def submitted(store: Store, key: str = "k") -> JobRecord:
    return store.submit(SPEC, 100.0, idempotency_key=key, package="abc")[0]


def to(store: Store, job: JobRecord, *phases: Phase) -> JobRecord:
    for phase in phases:
        job = store.save(replace(job, state=advance(job.state, phase, 110.0)), now=110.0)
    return job


def test_a_job_survives_closing_and_opening_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
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
        report={"batch_size": 64},
    )
    store.save(job, Event(EventKind.RUNNING, 101.0, job.id, {"text": "runs"}))
    store.close()
    again = Store(tmp_path / "jobs.sqlite")
    assert again.get(job.id) == job
    assert [event.kind for event in again.events(job.id)] == ["submit", "running"]


def test_slots_of_one_place_are_kept_each_with_its_own_amounts(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    jobs = [submitted(store, key) for key in "ab"]
    for job, cpus in zip(jobs, (1.0, 4.0), strict=True):
        store.save(replace(job, target=(replace(SLOT, cpus=cpus),)))
    store.close()
    again = Store(tmp_path / "jobs.sqlite")
    assert [again.get(job.id).target[0].cpus for job in jobs] == [1.0, 4.0]


def test_slots_of_an_earlier_version_get_the_lowest_gpus_that_no_other_job_has(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    first, second, third = (submitted(store, key) for key in "abc")
    two, pair = tuple(replace(SLOT, devices=(i,)) for i in range(2)), (replace(SLOT, devices=(0, 1)),)
    run = ProfileRun("t4", slot=replace(SLOT, devices=(2,)), started_s=3.0)
    store.save(replace(first, target=two[:1], held=two, group=two[:1], last_grant=((1, two[0]),), profiles=(run,)))
    store.save(replace(second, target=pair, held=pair, group=pair))
    store.save(replace(third, held=(replace(SLOT, devices=(1,)),)))
    for job in (first, second):
        earlier = without_names(store.get(job.id).to_json())
        store._db.execute("update jobs set record=? where id=?", (earlier, job.id))
    store.close()
    again = Store(tmp_path / "jobs.sqlite")
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


def test_a_record_that_cannot_be_read_is_named_and_the_other_jobs_stay(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    bad, good = submitted(store, "1"), submitted(store, "2")
    store._db.execute("update jobs set record='{' where id=?", (bad.id,))
    store.close()
    again = Store(tmp_path / "jobs.sqlite")
    assert set(again.jobs) == {good.id}
    assert set(again.unreadable) == {bad.id}
    with pytest.raises(KeyError, match=f"job {bad.id}: its record cannot be read"):
        again.submit(SPEC, 1.0, idempotency_key="1")
    assert submitted(again, "3").id == "digits-3"


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


def test_sums_are_the_same_after_the_store_was_opened_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    store.hold_profile(UsageInterval("j", 90.0, None, "t4", 1, 1))
    store.hold(UsageInterval("j", 100.0, None, "t4", 2, 1))
    store.release("j", 95.0, "profiling", "t4")
    store.hold(UsageInterval("j", 110.0, None, "t4", 4, 1))
    told = store.held_time("j").gpu_s(130.0), store.held_time("j").served_s(105.0, 130.0)
    store.close()
    again = Store(tmp_path / "jobs.sqlite")
    assert (
        (again.held_time("j").gpu_s(130.0), again.held_time("j").served_s(105.0, 130.0)) == told == (105.0, 25.0)
    )


def seen(store: Store, job_id: str) -> tuple[object, ...]:
    return store.get(job_id), store.held_time(job_id).gpu_s(500.0), store.held_time(job_id).served_s(0.0, 500.0)


def fill(store: Store) -> None:
    """Let the disk have no room for another page."""
    (pages,) = store._db.execute("pragma page_count").fetchone()
    store._db.execute(f"pragma max_page_count={pages}")


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
    store = Store(tmp_path / "jobs.sqlite")
    job = to(store, submitted(store), Phase.QUEUED, Phase.RUNNING)
    if what != "begin":
        store.hold(UsageInterval(job.id, 120.0, None, "t4", 2, 1, 32))
    before = seen(store, job.id)
    fill(store)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        change_and_fail(store, job, what)
    assert seen(store, job.id) == before
    assert list(store.unretired) == [job.id]
    store.close()
    again = Store(tmp_path / "jobs.sqlite")
    assert seen(again, job.id) == before
    again.release(job.id, 210.0)
    assert again.held_time(job.id).gpu_s(500.0) == (0.0 if what == "begin" else 180.0)


def test_a_job_whose_submission_fails_is_not_there_and_can_be_submitted_again(store: Store) -> None:
    first = submitted(store, "1")
    fill(store)
    large = JobSpec(name="large", script="t.py", env={"WORDS": "x" * 100_000})
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.submit(large, 1.0, idempotency_key="2")
    assert list(store.jobs) == list(store.unretired) == [first.id]
    store._db.execute("pragma max_page_count=1000000")
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


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    path.write_text("something else, long enough to have no sqlite header at all" * 20)
    with pytest.raises(StoreError, match="not a job store"):
        Store(path)


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    store._db.execute("update meta set value='99' where key='version'")
    store.close()
    with pytest.raises(StoreError, match="store version 99"):
        Store(tmp_path / "jobs.sqlite")


slots = st.builds(
    Slot,
    st.sampled_from(["n1", "n2", "n3"]),
    st.just("lease"),
    st.integers(0, 5).map(lambda replica: (2 * replica, 2 * replica + 1)),
    st.just("t4"),
    cpus=st.just(3.0),
    memory_gib=st.just(8.0),
)


@given(st.sets(slots, max_size=8))
def test_a_placement_holds_exactly_the_gpus_the_cpus_and_the_memory_of_its_slots(chosen: set[Slot]) -> None:
    placement = placement_of(tuple(chosen))
    if not chosen:
        assert placement is None
        return
    assert placement is not None
    assert placement.nodes == len({slot.node_id for slot in chosen})
    for share in placement.shares:
        mine = [slot for slot in chosen if slot.node_id == share.node_id]
        assert share.devices == tuple(sorted(device for slot in mine for device in slot.devices))
        assert (share.gpus, share.cpus, share.memory_gib) == (2 * len(mine), 3.0 * len(mine), 8.0 * len(mine))


WRITER = """
import sys
from dataclasses import replace
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.scheduler.job_lifecycle import advance
from coadapt.scheduler.store import Event, Store

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
    assert set(confirmed) <= set(store.jobs)
    for job_id in confirmed:
        assert store.get(job_id).phase is Phase.QUEUED
        assert [event.kind for event in store.events(job_id)] == ["submit", "admitted"]
    # Whatever was not confirmed is whole too: submitted, or submitted and queued.
    assert all(job.phase in (Phase.SUBMITTED, Phase.QUEUED) for job in store.jobs.values())


def test_events_of_the_cluster_are_the_newest_that_are_of_no_job_and_no_plan(store: Store) -> None:
    job = submitted(store)
    for at in range(12):
        store.log(Event(EventKind.ERROR, float(at), None, {"text": f"no {at}"}))
        store.log(
            Event(EventKind.PLAN, float(at), None, {}), Event(EventKind.ERROR, float(at), job.id, {"text": "a"})
        )
    assert [event.data["text"] for event in store.cluster_events(3)] == ["no 9", "no 10", "no 11"]
