"""A training process is started, followed and ended whole, whatever the script does."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from coadapt.executor.event_relay import compact
from coadapt.executor.processes.training_process import Launch, TrainingProcess
from coadapt.executor.protocol.messages import Crashed, Heartbeat, Left, Stop
from coadapt.executor.protocol.worker_events import Exited, Output, Started
from coadapt.executor.reconciling.failures import fault_of, is_final

SPEAKER = """
import os, sys, time
from coadapt.executor.protocol.messages import Heartbeat, Left, Stop
from coadapt.executor.protocol.wire import COMMANDS, Wire
channel = Wire(int(os.environ["COADAPT_CHANNEL_FD"]), COMMANDS)
"""


class Program(Launch):
    """A stand-alone program instead of a training script."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-u", self.script, *self.args]


class Running:
    """A process in a thread of its own, and everything it emitted."""

    def __init__(self, launch: Launch) -> None:
        self.events: list = []
        self._changed = threading.Condition()
        self.process = TrainingProcess(launch, self._emit)
        self.thread = threading.Thread(target=self.process.run)
        self.thread.start()

    def _emit(self, event: object) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, event: object) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: event in self.events, timeout=60), self.events

    @property
    def pid(self) -> int:
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self.events), timeout=60)
        assert isinstance(self.events[0], Started)
        return self.events[0].pid

    def end(self) -> list:
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.events

    @property
    def lines(self) -> list[str]:
        return "".join(event.text for event in self.events if isinstance(event, Output)).splitlines()


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    started: list[Running] = []

    def begin(program: str, *args: str) -> Running:
        script = tmp_path / "program.py"
        script.write_text(program)
        started.append(Running(Program(str(script), args, {"GREETING": "hello"}, str(tmp_path))))
        return started[-1]

    yield begin
    for running in started:
        running.process.kill()
        running.thread.join(30)


def test_events_come_up_in_order_and_the_exit_comes_last(start) -> None:
    running = start(SPEAKER + "for i in range(3): channel.send(Heartbeat(1, i))\nsys.exit(3)")
    events = running.end()
    assert isinstance(events[0], Started)
    assert events[1:] == [Heartbeat(1, 0), Heartbeat(1, 1), Heartbeat(1, 2), Exited(3)]


def test_commands_reach_the_process(start) -> None:
    running = start(
        SPEAKER + "channel.send(Heartbeat(1, 0)); channel.send(Left(7 if channel.receive() == Stop() else 0))"
    )
    running.wait(Heartbeat(1, 0))
    running.process.send(Stop())
    assert Left(7) in running.end()
    running.process.send(Stop())  # too late, and no error


def test_output_of_both_streams_comes_line_by_line_and_survives_odd_bytes(start) -> None:
    running = start(
        "import os, sys\nprint(os.environ['GREETING'], sys.argv[1])\nos.write(2, b'\\xff\\nno line end')\n", "you"
    )
    running.end()
    assert running.lines == ["hello you", "\ufffd", "no line end"]


def test_a_progress_bar_is_seen_as_it_is_drawn(start) -> None:
    """The script goes on only once what it has drawn so far was seen."""
    running = start(
        SPEAKER
        + "def draw(text):\n    sys.stderr.write(text); sys.stderr.flush(); channel.receive()\n"
        + "draw('\\r 10%|#'); draw('\\r 20%|##'); draw('\\r100%|\u2588\\n'); print('end')"
    )
    for drawn in (" 10%|#", " 20%|##", "\r100%|\u2588\n"):
        running.wait(Output(drawn))
        running.process.send(Stop())
    running.end()
    written = "".join(event.text for event in running.events if isinstance(event, Output))
    assert written == "\r 10%|#\r 20%|##\r100%|\u2588\nend\n"


def test_a_kill_is_seen_at_once_and_takes_everything_the_script_started_with_it(start) -> None:
    running = start(
        SPEAKER
        + "import subprocess; p = subprocess.Popen(['sleep', '600'])\n"
        + "channel.send(Heartbeat(1, p.pid)); time.sleep(600)"
    )
    pid = running.pid
    with running._changed:
        assert running._changed.wait_for(lambda: len(running.events) > 1, timeout=60)
    child = psutil.Process(running.events[1].steps)
    os.kill(pid, signal.SIGKILL)
    assert running.end()[-1] == Exited(-9)
    assert running.events[-1].reason == "was killed by SIGKILL"
    child.wait(timeout=10)


def test_the_executor_may_kill_it_before_and_after_it_started(start, tmp_path: Path) -> None:
    running = start("import time; time.sleep(600)")
    assert running.pid
    running.process.kill()
    assert running.end()[-1] == Exited(-9)
    never = TrainingProcess(Program("missing.py", (), {}), running._emit)
    never.kill()
    assert never.run() == -9


def test_a_real_script_that_fails_says_so_with_its_traceback(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def load():\n    raise ValueError('no data\\nanywhere')\n\n\nload()\n")
    running = Running(Launch(str(script), (), {}, str(tmp_path)))
    crashed = next(event for event in running.end() if isinstance(event, Crashed))
    assert crashed.summary == "ValueError: no data"
    assert fault_of(crashed.summary, crashed.traceback) == "ValueError: no data train.py:2"
    assert running.events[-1] == Exited(1)


def test_a_real_script_that_never_prepares_is_not_tried_again(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('done')\n")
    running = Running(Launch(str(script), (), {}, str(tmp_path)))
    crashed = next(event for event in running.end() if isinstance(event, Crashed))
    assert crashed.summary == "train.py never called coadapt.prepare"
    assert is_final(crashed.summary)


GLOO = "terminate called after throwing 'gloo::EnforceNotMet'\n op.preamble.length <= op.nbytes. 8 vs 4"


def test_a_replica_that_gloo_ends_for_what_the_others_send_is_an_error_of_the_script(start) -> None:
    events = start(f"import os\nos.write(2, {GLOO.encode()!r})\nos.abort()\n").end()
    assert [event.summary for event in events if isinstance(event, Crashed)] == [
        "replicas have gone different ways: what they send each other differs in size; "
        "decide by values that all share, such as coadapt.combine(value)"
    ]
    assert events[-1] == Exited(-signal.SIGABRT)


def test_any_other_abort_is_a_lost_worker(start) -> None:
    events = start("import os\nos.abort()\n").end()
    assert not [event for event in events if isinstance(event, Crashed)]


def test_neighbouring_output_is_sent_together() -> None:
    events = [Output("a\n"), Output("b"), Exited(0), Output("c")]
    assert compact(events) == [Output("a\nb"), Exited(0), Output("c")]


def test_a_process_that_sends_no_message_is_ended_and_the_sentence_says_so(start) -> None:
    running = start(SPEAKER + "os.write(channel.fileno(), (1 << 30).to_bytes(4, 'big')); time.sleep(600)")
    crashed, exited = running.end()[1:]
    assert isinstance(crashed, Crashed)
    assert crashed.summary.startswith("the training process sent its worker what is no message: a message of 107")
    assert exited == Exited(-signal.SIGKILL)
