"""A record is read as it was written, also by the versions before."""

from __future__ import annotations

import json
import pickle

from coadapt.executor.protocol.job_events import Reported
from coadapt.scheduler.presenters import job_row
from coadapt.scheduler.reactions import claim, react
from coadapt.scheduler.record import JobRecord

from tests.support.records import REPORT, A, B, C, measured, running


def test_reports_and_records_of_earlier_versions_say_nothing_of_where_a_metric_was_measured() -> None:
    job = react(running(A), Reported(REPORT, measured("t4")), 3.0).job
    assert job_row(job)["measured_at"] == {}
    row = json.loads(job.to_json())
    del row["measured_at"]
    assert JobRecord.from_json(json.dumps(row), job.measurements) == job
    old = pickle.loads(pickle.dumps(REPORT))
    del old.__dict__["measured_at"]
    assert react(running(A), Reported(old, measured("t4")), 3.0).job.metrics == {"accuracy": 0.9}


def test_a_record_survives_being_written() -> None:
    found = claim(react(running(A, B), Reported(REPORT, None), 3.0).job, (C,), 4.0).job
    assert JobRecord.from_json(found.to_json()) == found
    back = claim(found, (A,), 5.0).job
    assert JobRecord.from_json(back.to_json()) == back
    earlier = found.to_json().replace('"pending_commands":[[2,4.0]]', '"claimed_s":4.0')
    assert JobRecord.from_json(earlier) == found
    renamed = found.to_json().replace('"pending_commands"', '"claims"').replace('"last_grant"', '"given"')
    assert JobRecord.from_json(renamed) == found
