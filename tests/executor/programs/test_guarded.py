"""A guarded program ends with all that it has started, however it or its worker ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from coadapt.executor.programs.guarded import GuardedProgram, HowItEnded, NotStarted

LEAVES = (
    "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['sleep', sys.argv[1]])\n"
)
DAEMON = "import os, sys\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"


def started(*command: str, pace: float = 1.0, **env: str) -> tuple[GuardedProgram, list[str], threading.Event]:
    """Start a program; the event is set when it has written its first output."""
    said: list[str] = []
    spoke = threading.Event()

    def pass_on(text: str) -> None:
        said.append(text)
        spoke.set()

    return GuardedProgram(command, {**os.environ, **env}, None, pass_on, pace=pace), said, spoke


def running(mark: str) -> list[int]:
    """Return processes with an argument, other than those that have ended."""
    found = subprocess.run(["pgrep", "-x", "-f", f"sleep {mark}"], capture_output=True, text=True, check=False)
    pids = [int(pid) for pid in found.stdout.split()]
    return [pid for pid in pids if "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]]


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV)])
def test_the_status_of_a_program_is_known(command: str, code: int) -> None:
    program, said, _ = started("sh", "-c", f"echo begun; {command}")
    assert program.wait() == HowItEnded(code)
    assert "".join(said) == "begun\n"


def test_a_program_that_is_not_there_is_told_in_one_sentence() -> None:
    with pytest.raises(NotStarted, match=r"^command: no-such-program: No such file or directory$"):
        started("no-such-program")


def test_a_program_that_ends_on_sigterm_has_its_grace_to_save() -> None:
    save = "import signal, sys, time\n"
    save += "signal.signal(15, lambda *a: (print('saved', flush=True), sys.exit(3)))\n"
    save += "print('begun', flush=True)\ntime.sleep(60)"
    program, said, spoke = started(sys.executable, "-c", save)
    spoke.wait(20)
    program.terminate(20)
    assert program.wait() == HowItEnded(3)
    assert "".join(said) == "begun\nsaved\n"


# Half of the wall time at most: neither the program nor a child in a session of its own runs longer.
BUSY = """
import os, time
child = os.fork()
if child == 0:
    os.setsid()
print("begun", flush=True)
begun = time.monotonic()
while time.monotonic() - begun < 2:
    pass
print("slow" if time.process_time() < 1 else "fast", flush=True)
if child:
    os.waitpid(child, 0)
"""


def test_a_program_with_a_pace_and_all_that_it_starts_run_for_a_part_of_the_time() -> None:
    program, said, _ = started(sys.executable, "-c", BUSY, pace=0.25)
    assert program.wait() == HowItEnded(0)
    heard = "".join(said)  # lines of two programs may be mixed up
    assert (heard.count("begun"), heard.count("slow"), heard.count("fast")) == (2, 2, 0)


def test_a_program_with_a_pace_is_told_to_end_also_while_it_is_stopped() -> None:
    save = "import signal, sys, time\nsignal.signal(15, lambda *a: (print('saved', flush=True), sys.exit(3)))\n"
    save += "print('begun\\n', end='', flush=True)\nsignal.pause()"
    program, said, spoke = started(sys.executable, "-c", save, pace=0.05)
    spoke.wait(20)
    program.terminate(20)
    assert program.wait() == HowItEnded(3)
    assert "".join(said) == "begun\nsaved\n"


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace() -> None:
    program, _, spoke = started("sh", "-c", "trap '' TERM; echo begun; while true; do sleep 0.1; done")
    spoke.wait(20)
    program.terminate(0.3)
    assert program.wait() == HowItEnded(-signal.SIGKILL, overdue=True)


def test_the_children_of_a_shell_are_asked_to_end_as_well() -> None:
    child = (
        "import signal, sys, time\nsignal.signal(15, lambda *a: (print('child saved', flush=True), sys.exit(0)))\n"
    )
    child += "print('begun', flush=True)\ntime.sleep(60)"
    program, said, spoke = started("bash", "-c", f'"{sys.executable}" -c "$CHILD"; echo never', CHILD=child)
    spoke.wait(20)
    program.terminate(20)
    assert program.wait() == HowItEnded(-signal.SIGTERM)
    assert "".join(said) == "begun\nchild saved\n"


def test_what_a_program_leaves_in_the_background_is_ended_and_counted() -> None:
    program, _, _ = started(sys.executable, "-c", LEAVES, "86411")
    assert program.wait() == HowItEnded(0, left=1)
    assert running("86411") == []


def test_a_program_that_becomes_a_daemon_is_ended_and_counted_as_well() -> None:
    for _ in range(5):  # its parents are gone within a moment
        program, _, _ = started(
            sys.executable, "-c", DAEMON + "os.execvp('sleep', ['sleep', sys.argv[1]])", "86414"
        )
        assert program.wait() == HowItEnded(0, left=1)
        assert running("86414") == []


def test_a_program_can_be_interrupted_although_its_worker_cannot() -> None:
    shown = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        program, said, _ = started(sys.executable, "-c", shown)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    program.wait()
    assert "".join(said) == "set()\n"


def test_helpers_that_end_by_themselves_soon_after_the_program_are_not_called_left_behind() -> None:
    lock = "import multiprocessing as mp\nmp.get_context('spawn').Lock()\n"  # it starts a resource tracker
    program, _, _ = started(sys.executable, "-c", lock + "import os\nos._exit(0)")
    assert program.wait() == HowItEnded(0)


@pytest.mark.parametrize("children", [False, True], ids=["alone", "with its children"])
def test_processes_end_with_a_worker_that_is_killed(children: bool) -> None:
    worker = """
import os, psutil, threading
from coadapt.executor.programs.guarded import GuardedProgram
command = ["sh", "-c", "setsid sleep 86412 & sleep 86413"]
program = GuardedProgram(command, dict(os.environ), None, print)
print(psutil.Process(program.pid).ppid(), flush=True)
threading.Event().wait()
"""
    process = subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, text=True)
    guard = os.pidfd_open(int(process.stdout.readline()))
    killed = [process.pid]
    if children:  # as Ray does
        killed += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    assert select.select([guard], [], [], 20)[0], "the guard goes once all are gone"
    assert running("86412") == running("86413") == []


PACED = """
import time
begun = time.monotonic()
while time.monotonic() - begun < 60:
    pass
print("never slowed")
"""


def test_the_pace_of_a_program_changes_while_it_runs() -> None:
    program, _, _ = started(sys.executable, "-c", PACED)
    process = psutil.Process(program.pid)
    program.keep_pace(0.02)
    while process.status() != psutil.STATUS_STOPPED:
        os.sched_yield()
    program.keep_pace(1.0)
    while process.status() == psutil.STATUS_STOPPED:
        os.sched_yield()
    program.kill()
    program.wait()


def test_a_program_and_what_it_has_started_keep_to_their_cores_and_to_others_later(tmp_path: Path) -> None:
    first, *_, last = sorted(os.sched_getaffinity(0))
    said: list[str] = []
    spoke = threading.Semaphore(0)

    def pass_on(text: str) -> None:
        said.append(text)
        spoke.release()

    # A child in the background, which becomes one of the guard, and the program itself: each tells its cores.
    # Each line is one write, so that the lines of the two are never mixed.
    go_on = tmp_path / "go-on"
    os.mkfifo(go_on)
    script = f"""
import os
child = os.fork() == 0
if child and os.fork():
    os._exit(0)
os.write(1, f"{{child}} {{sorted(os.sched_getaffinity(0))}}\\n".encode())
if child:
    with open({str(go_on)!r}) as waits:
        waits.read()
    os.write(1, f"later {{sorted(os.sched_getaffinity(0))}}\\n".encode())
else:
    os.wait()
    os.kill(os.getpid(), 19)
"""
    program = GuardedProgram([sys.executable, "-c", script], dict(os.environ), None, pass_on, cores=(first,))
    while "True" not in "".join(said) or "False" not in "".join(said):
        assert spoke.acquire(timeout=20)
    assert f"True [{first}]" in "".join(said)
    assert f"False [{first}]" in "".join(said)
    program.keep_to((last,))
    deadline_s = time.monotonic() + 20
    while os.sched_getaffinity(program.pid) != {last}:
        assert time.monotonic() < deadline_s
    go_on.write_text("")
    while "later" not in "".join(said):
        assert spoke.acquire(timeout=20)
    assert f"later [{last}]" in "".join(said)
    program.keep_to(())
    while os.sched_getaffinity(program.pid) != set(os.sched_getaffinity(0)):
        assert time.monotonic() < deadline_s
    program.kill()
    program.wait()
