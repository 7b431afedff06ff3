"""What a training process sends is data: whatever it is, nothing of it is run, and memory stays bounded."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Habits, MeasuredAt, Progress, Report, StepRow, TrialRow
from coadapt.executor.protocol.messages import (
    Abort,
    Beside,
    Crashed,
    Finished,
    Heartbeat,
    Join,
    Keep,
    Leave,
    Left,
    Profiled,
    Ready,
    Save,
    SetBatch,
    Stop,
    Trying,
)
from coadapt.executor.protocol.wire import (
    COMMANDS,
    EVENTS,
    LENGTH_BYTES,
    MESSAGE_BYTES,
    MOST_DEPTH,
    MOST_VALUES,
    MessageError,
    Wire,
    decoded,
    encoded,
)
from hypothesis import given, settings
from hypothesis import strategies as st

ROW = StepRow(1, 2, 32, 0, 0.25, 0.01, 12)
REPORT = Report(
    3,
    "a100",
    1,
    2,
    [ROW, ROW],
    None,
    math.inf,
    64,
    32,
    0,
    0.1,
    1.5,
    Progress(0, None, 0.5, 12, 768, 900.0),
    {"loss": -math.inf, "seen": 12, "score": 0.5},
    Habits(per_step=2),
    {"loss": MeasuredAt(1, 768)},
    trials=(TrialRow(3, (0, 4), {"loss": [0.5, math.inf]}, (1,)),),
)
SAID = [
    Ready("print", 32, 10, None, "SGD", False, True, 2),
    Heartbeat(1, 2),
    REPORT,
    Trying(8),
    Profiled(ROW, asked_samples=1e6),
    Profiled(None, done=True),
    Left(3, "/checkpoints/3"),
    Finished(4, True, {"loss": 0.25}, "epoch 1 of 2"),
    Crashed("RuntimeError: 'é' \ud800", "Traceback …", out_of_memory=True),
]
TOLD = [
    Join(1, 0, 2, 1, 0, 2, "10.0.0.1", 29500, BatchPlan(8, 1, 16)),
    Join(1, 0, 2, 1, 0, 2, "10.0.0.1", 29500),
    Leave(2, save=True),
    SetBatch(BatchPlan(4)),
    Save(),
    Stop(save=False),
    Abort(7),
    Beside(0.75, 12.5),
    Keep((0, 3), True),
]


class Ends:
    """A wire that listens to events, and the socket on which anything can be written to it."""

    def __init__(self) -> None:
        ours, self.script = socket.socketpair()
        self.wire = Wire(ours.detach(), EVENTS, "j-1")

    def write(self, data: bytes) -> None:
        self.script.sendall(data)

    def says(self, data: bytes) -> None:
        self.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)

    def refused(self) -> str:
        with pytest.raises(MessageError) as found:
            self.wire.receive()
        return str(found.value)


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    yield found
    found.script.close()
    found.wire.close()


def message(kind: str, fields: Any, job: str = "j-1") -> bytes:
    return json.dumps({"job": job, "kind": kind, "fields": fields}).encode()


@pytest.mark.parametrize("said", SAID, ids=lambda one: type(one).__name__)
def test_every_event_arrives_as_it_was_sent(said: Any) -> None:
    found = decoded(encoded(said, "j-1"), EVENTS, "j-1")
    if isinstance(said, Crashed):  # half a character cannot be sent
        assert found.summary == "RuntimeError: 'é' ?"
    else:
        assert found == said


@pytest.mark.parametrize("told", TOLD, ids=lambda one: type(one).__name__)
def test_every_command_arrives_as_it_was_sent(told: Any) -> None:
    assert decoded(encoded(told), COMMANDS) == told


def test_a_metric_that_is_no_number_stays_one() -> None:
    found = decoded(encoded(Finished(1, metrics={"loss": math.nan, "large": 10**400})), EVENTS)
    assert math.isnan(found.metrics["loss"])
    assert found.metrics["large"] == math.inf


def test_fields_of_a_later_version_are_passed_over() -> None:
    later = message("Heartbeat", {"generation": 1, "steps": 2, "mood": {"good": [1, 2]}})
    assert decoded(later, EVENTS, "j-1") == Heartbeat(1, 2)


def test_fields_that_an_earlier_version_does_not_send_have_their_defaults() -> None:
    assert decoded(message("Left", {"steps": 3}), EVENTS, "j-1") == Left(3)


BAD = {
    "no JSON": (b"\x80\x04K\x01.", "a message is no JSON"),
    "NaN": (b'{"kind": NaN}', "a message is no JSON"),
    "no object": (b"[1]", "a message is [1]; an object with job, kind and fields is expected"),
    "another job": (
        message("Heartbeat", {"generation": 1, "steps": 2}, job="j-2"),
        "job: a message is of job \"j-2\", and this is job 'j-1'",
    ),
    "a command": (message("Stop", {}), 'kind: "Stop" is none of Ready, Joined'),
    "an event of a worker": (message("Exited", {"code": 0}), 'kind: "Exited" is none of'),
    "no fields": (message("Heartbeat", None), "Heartbeat: null is no object of fields"),
    "a field missing": (message("Heartbeat", {"generation": 1}), "Heartbeat.steps: missing"),
    "a wrong type": (
        message("Heartbeat", {"generation": "1", "steps": 2}),
        'Heartbeat.generation: "1" is no whole number of 64 bits',
    ),
    "too large a number": (
        message("Heartbeat", {"generation": 2**63, "steps": 2}),
        "Heartbeat.generation: 9223372036854775808 is no whole number of 64 bits",
    ),
    "a number of 5,000 digits": (
        b'{"job": "j-1", "kind": "Trying", "fields": {"local_bsz": 1' + b"0" * 5000 + b"}}",
        "a message is no JSON",
    ),
    "inside": (
        message("Finished", {"steps": 1, "metrics": {"loss": [1]}}),
        "Finished.metrics: [1] is no number",
    ),
    "too deep": (b"[" * 100 + b"]" * 100, f"a message is nested more than {MOST_DEPTH} levels deep"),
    "too many": (b"[" + b"0," * MOST_VALUES + b"0]", f"a message has more than {MOST_VALUES} values"),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_event_is_refused_in_one_sentence(bad: str, ends: Ends) -> None:
    data, sentence = BAD[bad]
    ends.says(data)
    told = ends.refused()
    assert told.startswith(sentence)
    assert len(told) < 300


def test_a_gibibyte_that_is_announced_is_refused_before_it_is_read(ends: Ends) -> None:
    ends.write((1 << 30).to_bytes(LENGTH_BYTES, "big"))
    assert ends.refused() == f"a message of {1 << 30} bytes was announced; 1 to {MESSAGE_BYTES} are taken"


def test_half_a_message_is_the_end_of_the_process_and_no_event(ends: Ends) -> None:
    whole = encoded(Heartbeat(1, 2), "j-1")
    ends.write(len(whole).to_bytes(LENGTH_BYTES, "big") + whole[:-3])
    ends.script.close()
    with pytest.raises(EOFError, match=r"it ended within a message, of which \d+ of \d+ bytes came"):
        ends.wire.receive()


def test_a_pickle_is_not_unpickled(ends: Ends, tmp_path: Path) -> None:
    mark = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(mark),)

    data = pickle.dumps(Evil())
    ends.says(data)
    assert ends.refused() == "a message is no JSON"
    assert not mark.exists()


def test_texts_of_any_kind_cost_time_in_proportion_to_their_length() -> None:
    for data in (b'"' + b'\\"' * 1_000_000, b'"' + b"\\" * 2_000_001, b'"' * 1_000_001):
        with pytest.raises(MessageError):
            decoded(data, EVENTS)


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(MessageError, match=f"at most {MESSAGE_BYTES} are sent"):
        encoded(Crashed("", "x" * MESSAGE_BYTES))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_NAMES = st.sampled_from(["generation", "steps", "metrics", "row", "rows", "progress", "summary", "done"])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([one.__name__ for one in EVENTS]) | st.text(max_size=5), st.dictionaries(_NAMES, _JSON))
def test_any_json_is_an_event_or_refused(kind: str, fields: dict[str, Any]) -> None:
    try:
        found = decoded(message(kind, fields), EVENTS, "j-1")
    except MessageError:
        return
    assert type(found) in EVENTS


def test_many_damaged_messages_are_events_or_refused_in_bounded_memory() -> None:
    draw = random.Random(54)
    whole = [encoded(said, "j-1") for said in SAID]
    tracemalloc.start()
    try:
        refused = 0
        for _ in range(10_000):
            data = bytearray(draw.choice(whole))
            for _ in range(draw.randint(1, 8)):
                at = draw.randrange(len(data))
                data[at : at + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
            try:
                assert type(decoded(bytes(data), EVENTS, "j-1")) in EVENTS
            except MessageError:
                refused += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < refused < 100_000
    assert peak < 50 << 20
