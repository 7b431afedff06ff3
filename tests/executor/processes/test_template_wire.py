"""Which processes may come from one template, and what is refused on its socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from coadapt.executor.processes.template_wire import (
    ForkRequest,
    Owner,
    WireError,
    code_files,
    receive,
    send,
    template_key,
    with_paths,
    without_relative_paths,
)

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "file",
    [
        "executor/training/sessions/managed_session.py",
        "executor/protocol/messages.py",
        "core/slot.py",
        "__init__.py",
    ],
)
def test_a_template_of_older_code_is_not_used_whichever_file_of_a_training_process_is_new(file: str) -> None:
    assert ROOT / file in code_files(ROOT)


def test_libraries_that_would_load_otherwise_need_another_template() -> None:
    env = {"OMP_NUM_THREADS": "1", "HOME": "/h"}
    key = template_key(env, "session")
    assert template_key({**env, "HOME": "/elsewhere", "BATCH": "8"}, "session") == key
    assert template_key({**env, "OMP_NUM_THREADS": "4"}, "session") != key
    assert template_key(env, "another session") != key


def test_folders_to_import_from_come_before_those_that_the_environment_names() -> None:
    assert with_paths({"PYTHONPATH": "/mine"}, ["/job"])["PYTHONPATH"] == os.pathsep.join(["/job", "/mine"])
    assert with_paths({"A": "1"}, []) == {"A": "1"}


def test_a_relative_import_folder_means_the_same_from_any_working_directory() -> None:
    env, gone = without_relative_paths({"PYTHONPATH": "/abs:lib"}, "/job")
    assert (env["PYTHONPATH"], gone) == ("/abs", ["/job/lib"])
    assert without_relative_paths({"PYTHONPATH": "/abs"}, "/job") == ({"PYTHONPATH": "/abs"}, [])


def test_a_request_arrives_as_it_was_sent_with_its_descriptors() -> None:
    request = ForkRequest("t.py", ["--a"], {"X": "1"}, "/", ["/job"], Owner("s", 7))
    ours, theirs = socket.socketpair()
    file = request.file()
    with ours, theirs:
        send(ours, request.message(), [file])
        message, descriptors = receive(theirs)
    os.close(file)
    told = {"session": "s", "pid": 7, "fork": True, "lasts": False}
    assert message == told, "the template is told nothing of the job"
    assert len(descriptors) == 1
    assert ForkRequest.read(descriptors[0]) == request


@pytest.mark.parametrize(
    ("sent", "error"),
    [(b"", "the connection ended"), (bytes([255] * 8), "at most"), (b"\0" * 7 + b"\x021", "the connection ended")],
)
def test_what_is_no_message_is_refused(sent: bytes, error: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(sent)
        with pytest.raises(WireError, match=error):
            receive(theirs)
