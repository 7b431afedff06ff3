"""The helper of a machine fits models for executors, which load nothing for that; a bad question harms nobody."""

from __future__ import annotations

import os
import socket
import uuid

import pytest
from coadapt.core.reports import StepRow
from coadapt.estimators.measurements import Measurements, fits_of
from coadapt.executor.processes.helper_client import answer, connected, socket_of
from coadapt.executor.processes.template_wire import Owner

ROWS = [StepRow(1, 1, 32, 0, 0.10, 0.0, 20), StepRow(1, 1, 64, 0, 0.18, 0.0, 20)]


@pytest.fixture(scope="module")
def owner() -> Owner:
    return Owner(uuid.uuid4().hex, os.getpid())


def test_it_fits_what_an_executor_has_measured(owner: Owner) -> None:
    asked = Measurements().with_rows("t4", ROWS).unfitted()
    assert answer(asked, owner, 60.0) == fits_of(asked)


def test_a_question_that_makes_no_sense_has_no_answer_and_the_next_one_has(owner: Owner) -> None:
    asked = Measurements().with_rows("t4", ROWS).unfitted()
    assert answer({"profiles": {"t4": ["nonsense", None]}, "parameters": None}, owner, 60.0) is None
    assert answer({"what": "else"}, owner, 60.0) is None
    with connected(owner):
        pass  # who asks nothing
    assert answer(asked, owner, 60.0) == fits_of(asked)


def test_without_an_answer_in_time_there_is_none() -> None:
    hung = Owner(uuid.uuid4().hex, os.getpid())
    path = socket_of(hung.session)
    with socket.socket(socket.AF_UNIX) as listener:  # it is there, and nobody takes what is asked
        listener.bind(os.fspath(path))
        listener.listen()
        try:
            assert answer(Measurements().with_rows("t4", ROWS).unfitted(), hung, 0.01) is None
        finally:
            path.unlink()
