"""Executor and service of different versions understand each other, or say in one sentence what they do not."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Habits, MeasuredAt, Progress, Report, StepRow
from coadapt.core.slot import Slot
from coadapt.core.usage import Mean, Usage
from coadapt.estimators.measurements import Measurements
from coadapt.executor.protocol import job_events
from coadapt.executor.protocol.envelope import SERVED, VERSION, UnknownMessage, packed, unpacked
from coadapt.executor.protocol.job_events import (
    AtRest,
    Checkpointed,
    CoresHeld,
    ExecutorEvent,
    Failing,
    GpuNoticed,
    JobFailed,
    JobFinished,
    Killed,
    ProfileFinished,
    Released,
    Reported,
    Running,
    Standing,
    StatusesRefused,
    Used,
    WorkerLost,
)

SLOT = Slot("n1", "l1", (0, 1), "t4", emulated=True, cpus=1.5, memory_gib=4.0, share=0.5)
ROW = StepRow(1, 2, 8, 0, 0.1, 0.01, 5)
MEASURED = Measurements().with_rows("t4", [ROW])
USED = Used("abc", 3, {"t4": Usage(60.0, gpu=Mean(30.0, 60.0), emulated=True)})
REPORT = Report(
    *(1, "t4", 1, 2, (ROW,), None, 50.0, 64, 32, 0, 0.1, 1.5, Progress(2, None, 0.2, 9, 640, 500.0)),
    metrics={"loss": 0.5, "nan": float("inf")},
    habits=Habits(per_step=2),
    measured_at={"loss": MeasuredAt(2, 640)},
)
EVENTS: list[ExecutorEvent] = [
    ProfileFinished("t4", ok=True, measurements=MEASURED, sequence=3, traceback="Traceback …"),
    ProfileFinished("t4", ok=False, reason="no memory"),
    Running(4, (SLOT,), warm=True, pause_s=0.3, generation=2),
    Released(4, (SLOT,), everything=False),
    Reported(REPORT, MEASURED, BatchPlan(32, 1), "left out", USED),
    USED,
    WorkerLost("its process died", SLOT),
    GpuNoticed("GPU 0 was made anew"),
    CoresHeld({"n1": ("0-3", "0-15")}),
    Killed("2 processes"),
    StatusesRefused("abc", 4, "torn"),
    Failing("ValueError: no", 2, "Traceback …"),
    JobFinished({"loss": 0.1}, target_reached=True),
    JobFailed("ValueError: no", "Traceback …", 4, "why"),
    Standing("n1"),
    Checkpointed(1200, 0.5),
    AtRest({"steps": [1, 2], "of": {"t4": 0.5}}, MEASURED),
]


def same(one: Any, other: Any) -> bool:
    return bool(sent(one) == sent(other))


def sent(event: Any) -> Any:
    """Return an event whose measurements are their JSON."""
    return packed(event)["event"]


def test_every_kind_of_event_is_tried() -> None:
    assert {type(event) for event in EVENTS} == set(ExecutorEvent.__args__)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_arrives_as_it_was_sent_and_only_plain_values_travel(event: ExecutorEvent) -> None:
    message = packed(event)
    assert message["protocol"] == VERSION
    assert b"coadapt" not in pickle.dumps(message)
    found = unpacked(pickle.loads(pickle.dumps(message)), Measurements.from_json)
    assert type(found) is type(event)
    assert same(found, event)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_the_version_before_which_sent_objects_is_served(event: ExecutorEvent) -> None:
    assert SERVED == (VERSION - 1, VERSION)
    assert same(unpacked(pickle.loads(pickle.dumps(event)), Measurements.from_json), event)


def test_an_object_of_the_version_before_lacks_what_was_added_and_has_what_was_dropped() -> None:
    event = Running(4, (SLOT,), warm=True, generation=2)
    for name in ("generation", "retried"):
        vars(event).pop(name)
    vars(event)["dropped_since"] = 1
    assert unpacked(event) == Running(4, (SLOT,), warm=True)


def test_fields_of_a_later_version_do_no_harm_at_any_depth() -> None:
    message = packed(EVENTS[4])
    message |= {"protocol": 3, "sent_s": 5.0}
    (_, _, told) = message["event"]
    told["invented"] = {"a": 1}
    told["report"][2]["invented"] = 7
    told["report"][2]["progress"][2]["invented"] = None
    del told["left_out"]
    found = unpacked(message, Measurements.from_json)
    assert isinstance(found, Reported)
    assert (found.report, found.batch, found.left_out) == (REPORT, BatchPlan(32, 1), "")


def test_metrics_may_have_any_name() -> None:
    event = JobFinished({"~object": 1.0, "protocol": 2.0})
    assert unpacked(packed(event)) == event


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("text", "sent a message of no known form: str"),
        ({"protocol": 2}, "sent a message of no known form: dict"),
        (
            {"protocol": 9, "event": ("~object", "Teleported", {})},
            "a Teleported, which only a later version knows",
        ),
        ({"protocol": 2, "event": ("~object", "Running", {"sequence": 1})}, "a Running without slots, warm"),
        ({"protocol": 2, "event": packed(Used("a", 1, {}))["event"][2]}, "what is no event: dict"),
        ({"protocol": 2, "event": ("~object", "Slot", vars(SLOT))}, "what is no event: Slot"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_sentence(message: object, says: str) -> None:
    with pytest.raises(UnknownMessage, match=says):
        unpacked(message)


def test_all_that_events_hold_is_known_to_the_protocol() -> None:
    for kind in ExecutorEvent.__args__:
        assert kind.__module__ == job_events.__name__
        assert fields(kind)
