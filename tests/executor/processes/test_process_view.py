"""A forked process is shown with its own command line and environment, cut where there is no room."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from coadapt.executor.processes.process_view import ROOM_ARGUMENT, ROOM_ENV

SHOWN = """
import sys
from pathlib import Path
from coadapt.executor.processes.process_view import show_as
show_as({command}, {env})
sys.stdout.buffer.write(Path("/proc/self/cmdline").read_bytes() + b"|" + Path("/proc/self/environ").read_bytes())
"""


def shown(command: str, env: str) -> tuple[list[str], dict[str, str]]:
    """Return what a process shows that was started with room; `command`, `env`: what it is to show, as code."""
    code = SHOWN.format(command=command, env=env)
    given = [sys.executable, "-c", code, ROOM_ARGUMENT]
    found = subprocess.run(given, env={**os.environ, **ROOM_ENV}, capture_output=True, check=True).stdout
    command_text, _, env_text = found.partition(b"|")
    words = [word.decode() for word in command_text.split(b"\0") if word]
    pairs = [word.decode().partition("=") for word in env_text.split(b"\0") if word]
    return words, {name: value for name, _, value in pairs}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows a process so")
def test_a_process_is_shown_as_the_script_that_it_runs() -> None:
    words, env = shown("['python', 'train.py', '--name', 'grün']", "{'RANK': '0', 'EMPTY': ''}")
    assert words == ["python", "train.py", "--name", "grün"]
    assert env == {"RANK": "0", "EMPTY": ""}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows a process so")
def test_what_is_longer_than_the_room_is_cut() -> None:
    words, env = shown("['python', 'x' * 100_000]", "{'LONG': 'y' * 1_000_000}")
    assert words[0] == "python"
    assert words[1] == "x" * len(words[1])
    assert len(words[1]) > 500
    assert set(env["LONG"]) == {"y"}
