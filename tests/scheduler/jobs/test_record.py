"""A record is read as it was written, also by the versions before."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import Reported
from coadapt.scheduler.changes.reactions import claim, react
from coadapt.scheduler.jobs.record import placement_of
from coadapt.scheduler.store.record_rows import record
from coadapt.scheduler.views.job_views import job_row
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import REPORT, A, B, C, measured, running
from tests.support.stored_rows import read_back, rows_of


def test_reports_and_records_of_earlier_versions_say_nothing_of_where_a_metric_was_measured() -> None:
    job = react(running(A), Reported(REPORT, measured("t4")), 3.0).job
    assert job_row(job)["measured_at"] == {}
    rows = rows_of(job)
    row = json.loads(rows.report)
    del row["measured_at"]
    assert record(replace(rows, report=json.dumps(row))) == job
    old = pickle.loads(pickle.dumps(REPORT))
    del old.__dict__["measured_at"]
    assert react(running(A), Reported(old, measured("t4")), 3.0).job.metrics == {"accuracy": 0.9}


def test_a_record_survives_being_written() -> None:
    found = claim(react(running(A, B), Reported(REPORT, None), 3.0).job, (C,), 4.0).job
    assert read_back(found) == found
    back = claim(found, (A,), 5.0).job
    assert read_back(back) == back
    rows = rows_of(found)
    earlier = rows.details.replace('"pending_commands":[[2,4.0]]', '"claimed_s":4.0')
    assert earlier != rows.details
    assert record(replace(rows, details=earlier)) == found
    renamed = rows.details.replace('"pending_commands"', '"claims"').replace('"last_grant"', '"given"')
    assert record(replace(rows, details=renamed)) == found


def test_fields_of_a_later_version_are_kept_and_written_back() -> None:
    rows = rows_of(running(A))
    told = {**json.loads(rows.details), "mood": {"of": [1, 2]}}
    spec = {**json.loads(rows.spec), "mood": 7}
    found = record(replace(rows, details=json.dumps(told), spec=json.dumps(spec)))
    assert json.loads(rows_of(found).details)["mood"] == {"of": [1, 2]}
    assert replace(found, beyond={}) == running(A)


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
