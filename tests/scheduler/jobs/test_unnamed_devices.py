"""Records of versions that only counted GPUs get names for them; no GPU is named twice."""

from __future__ import annotations

from dataclasses import replace

from coadapt.core.slot import Slot
from coadapt.scheduler.changes.reactions import claim
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun
from coadapt.scheduler.jobs.unnamed_devices import with_names
from coadapt.scheduler.store.record_rows import record

from tests.support.records import job, running
from tests.support.stored_rows import rows_of, without_names


def earlier(id: str, *slots: Slot, profile: Slot | None = None) -> JobRecord:
    """Return a job that trains on these slots, as it is read from an earlier version's record."""
    runs = (ProfileRun(profile.gpu_type, profile, 1.0),) if profile is not None else ()
    return record(without_names(rows_of(replace(running(*slots), id=id, profiles=runs))))


def slot(*devices: int, node: str = "n1") -> Slot:
    return Slot(node, "l", devices, "t4", emulated=True)


def test_unnamed_gpus_get_the_lowest_names_that_nobody_has() -> None:
    named = replace(running(slot(1)), id="named")
    first, second = with_names([named, earlier("a", slot(0, 1), slot(2, 3)), earlier("b", slot(0))])
    assert first.target == first.held == first.group == (slot(0, 2), slot(3, 4))
    assert second.target == (slot(5),)


def test_gpus_of_a_command_without_an_answer_get_the_names_of_its_slots() -> None:
    claimed = claim(job(), (slot(0),), 1.0).job
    (found,) = with_names([record(without_names(rows_of(claimed)))])
    assert found.target == (slot(0),)
    assert found.last_grant == ((claimed.sequence, slot(0)),)


def test_each_node_counts_for_itself() -> None:
    (found,) = with_names([earlier("a", slot(0, node="n1"), slot(0, node="n2"))])
    assert found.target == (slot(0, node="n1"), slot(0, node="n2"))


def test_a_profile_run_and_what_trains_beside_it_get_different_gpus() -> None:
    (found,) = with_names([earlier("a", slot(0), profile=slot(1))])
    assert sorted(device for held in found.occupied for device in held.devices) == [0, 1]


def test_records_that_name_their_gpus_are_left_alone() -> None:
    assert with_names([running(slot(1)), replace(running(slot(0)), id="b")]) == []
