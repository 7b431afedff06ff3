"""A Trainer with `enable_jit_checkpoint` is a command that restarts: it saves on SIGTERM, and no step is lost."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from coadapt.core.doors import Processes
from coadapt.executor.programs.command_processes import CommandLaunch
from coadapt.executor.protocol.command_events import Begin, Said, Status, Terminate

from tests.support.command_node import CommandNode

pytest.importorskip("transformers")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parents[1] / "support" / "jit_trainer.py"
STEPS = 30
FINAL = re.compile(r"^final .*$", re.MULTILINE)


def started(folder: Path, step_s: float) -> CommandNode:
    """Start the program as the command of a job with one GPU, with its grace time as long as it needs."""
    folder.mkdir(exist_ok=True)
    words = (sys.executable, "-u", str(SCRIPT), str(folder), str(STEPS), str(step_s))
    node = CommandNode(CommandLaunch("a-1", words, Processes.GPU, 1, 1, cwd=str(folder)))
    node.processes.send(Begin(1, 0, 1, 0, 1, "127.0.0.1", 29_500))
    return node


def steps(node: CommandNode) -> list[int]:
    return [int(number) for number in re.findall(r"^step (\d+)$", node.output(), re.MULTILINE)]


def test_a_trainer_saves_on_sigterm_and_ends_as_one_that_was_never_stopped(tmp_path: Path) -> None:
    whole = started(tmp_path / "whole", 0.0)
    assert [ended.code for ended in whole.ended()] == [0], whole.output()

    stopped = started(tmp_path / "stopped", 0.5)
    stopped.until(lambda event: isinstance(event, Said) and "step 3\n" in event.text)
    stopped.processes.send(Terminate(120.0))
    (ended,) = stopped.ended()
    assert (ended.code, ended.overdue) == (0, False), stopped.output()
    assert 3 < steps(stopped)[-1] < STEPS
    (saved,) = (tmp_path / "stopped").glob("checkpoint-*")
    assert stopped.of(Status)[-1].metrics, "its own status endpoint told how far it was"

    again = started(tmp_path / "stopped", 0.0)
    assert [ended.code for ended in again.ended()] == [0], again.output()
    assert int(saved.name.removeprefix("checkpoint-")) >= steps(stopped)[-1] - 1, "one step is made again at most"
    assert steps(again) == list(range(int(saved.name.removeprefix("checkpoint-")) + 1, STEPS + 1))
    assert FINAL.findall(again.output()) == FINAL.findall(whole.output()) != []
