"""What a program says of how far it is, in any of the usual words, is taken, and nothing else is."""

from __future__ import annotations

import math

import pytest
from coadapt.executor.programs.status_lines import LogPattern, StatusError, status_in_line, status_of
from coadapt.executor.protocol.command_events import Status


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"step": 3, "steps": 12, "loss": 0.5}, Status(1.0, 3, 12, fraction=0.25, metrics={"loss": 0.5})),
        ({"global_step": 3, "max_steps": 12}, Status(1.0, 3, 12, fraction=0.25)),
        ({"epoch": 1.5, "num_train_epochs": 3}, Status(1.0, epoch=1.5, epochs=3.0, fraction=0.5)),
        ({"percent": 40}, Status(1.0, fraction=0.4)),
        ({"percentage": 140}, Status(1.0, fraction=1.0)),
        ({"percentage": 1, "current_step": 15, "total_steps": 1000}, Status(1.0, 15, 1000, fraction=0.015)),
        ({"fraction": 0.1, "samples": 640}, Status(1.0, fraction=0.1, samples=640)),
        ({"step": 7, "note": "text", "ok": True, "lr": 1e-3}, Status(1.0, 7, metrics={"lr": 1e-3})),
        ({"step": 7, "steps": 0}, Status(1.0, 7)),
        ({"loss": 10**400, "score": -(10**400)}, Status(1.0, metrics={"loss": math.inf, "score": -math.inf})),
        ({"time": 17.0, "job_id": "a-1", "accuracy": 1}, Status(1.0, metrics={"accuracy": 1.0})),
    ],
)
def test_amounts_are_known_by_their_usual_names_and_other_numbers_are_metrics(said: dict, status: Status) -> None:
    assert status_of(said, "a-1", 1.0) == status


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"step": 3, "lo', "is no line of JSON; it was left out"),
        ("[1, 2]", "is no JSON object"),
        ('{"step": -1}', "step is -1, and a number of 0 or more is expected"),
        ('{"fraction": NaN}', "fraction is nan, and a number of 0 or more is expected"),
        ('{"step": null}', "step is None"),
        ('{"step": 1e300}', "step is 1e+300, and a number from 0 to 1e+15 is expected"),
        (f'{{"step": 1{"0" * 400}}}', f"step is 1{'0' * 39}…, and a number from 0 to 1e+15 is expected"),
        ("[" * 100_000, "is no line of JSON"),
        ('{"job_id": "b-2", "step": 3}', "it is of job b-2, and this is a-1"),
    ],
)
def test_a_torn_or_foreign_status_is_refused_in_one_sentence(line: str, why: str) -> None:
    with pytest.raises(StatusError, match=r"^status: [^\n]+$") as refused:
        status_in_line(line, "a-1", 0.0)
    assert why in str(refused.value)


def test_a_pattern_finds_its_groups_in_lines_however_the_output_is_cut() -> None:
    pattern = LogPattern(r"step (?P<step>[\d,]+)/(?P<of>\d+).*loss (?P<loss>\S+)")
    assert pattern.statuses("begin\nstep 1,0", 1.0) == []
    (found,) = pattern.statuses("00/2000 loss 0.25\nstep", 2.0)
    assert found == Status(2.0, 1000, 2000, fraction=0.5, metrics={"loss": 0.25})
    (found,) = pattern.statuses(" 2000/2000 loss -\r", 3.0)
    assert found == Status(3.0, 2000, 2000, fraction=1.0), "a group that is no number is left out"
