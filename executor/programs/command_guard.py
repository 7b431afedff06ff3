"""Run one program, and end with it all that it has started. This is a script of its own, which imports no other.

    python command_guard.py CONTROL RESULT PACE CORES ENVIRONMENT UID WRAPPERS PROGRAM ARGUMENT…

A program may start others in sessions of their own, or fork into the background. They become children of this
process, which is their subreaper, so none of them outlives it. Whoever ends the worker ends its children as well,
so this process is none of them. CONTROL is a pipe from the worker:
`SECONDS` on a line asks for SIGTERM, and SIGKILL so many seconds later. `pace PART` sets another PACE, and
`cores CORES` other ones. Its end means that the worker is gone, and kills everything at once. One line of JSON
goes to RESULT when all are gone.
CORES are those that the program and all that it starts keep to, as `0,1`; `-`: all of the machine.
PACE below 1 is the part of the time that the program may run: it is stopped for the rest of each period, until it
is to end. ENVIRONMENT is a file of JSON with the program's variables, of which this process has none. UID is the
program's user, or -1. WRAPPERS are the processes between the one that is started here and the program.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

END_WITH_PARENT = 1  # PR_SET_PDEATHSIG
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
NO_NEW_RIGHTS = 38  # PR_SET_NO_NEW_PRIVS
LOOK_S = 0.05  # between looks at what a program has left behind
PERIOD_S = 0.2  # of a pace; all programs of a machine run and stop at the same moments
ALL = "-"  # instead of cores
LINGER_S = 1.0  # for helpers that end by themselves after it, such as Python's resource tracker


def descendants() -> list[int]:
    """Return all processes below this one that still run, as /proc tells."""
    children = children_of_all()
    found, look = [], [os.getpid()]
    while look:
        below = children.get(look.pop(), [])
        found += below
        look += below
    return found


def inside(pid: int, wrappers: int) -> list[int]:
    """Return the processes that are so many levels below one, or the last level that there is."""
    children, level = children_of_all(), [pid]
    for _ in range(wrappers):
        level = [child for one in level for child in children.get(one, [])] or level
    return level


def children_of_all() -> dict[int, list[int]]:
    """Return the children of each process of the machine that still run."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in "ZX":
            children.setdefault(int(parent), []).append(int(name))
    return children


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def keep_to(cores: str, pids: list[int]) -> None:
    """Let all threads of processes run on cores only, and what they start later."""
    wanted = range(os.cpu_count() or 1) if cores == ALL else map(int, cores.split(","))
    allowed = set(wanted)
    for pid in pids:
        with suppress(OSError):  # it has ended, or the machine lacks all of these
            for task in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):
                    os.sched_setaffinity(int(task), allowed)


class Program:
    """What to run, with which variables, as which user, and behind how many other processes."""

    def __init__(self, environment: int, uid: int, wrappers: int, command: list[str]) -> None:
        with os.fdopen(environment, "rb") as file:
            file.seek(0)
            self.environment: dict[str, str] = json.load(file)
        self.rights: dict[str, Any] = {} if uid < 0 else {"user": uid, "group": uid, "extra_groups": []}
        self.wrappers, self.command = wrappers, command


class Guard:
    """Follow the program until everything it has started is gone."""

    def __init__(self, control: int, result: int, pace: float, program: Program) -> None:
        self._control, self._result, self._pace, self._start = control, result, pace, program
        self._stopped = False  # for the rest of a period
        self._program = 0
        self._code: int | None = None
        self._deadline_s: float | None = None  # of SIGKILL, once the program was told to end
        self._told_rest = self._overdue = self._alone = False
        self._left = 0
        self._ended_s = float("inf")
        self._waiting = b""

    def run(self) -> None:
        system = ctypes.CDLL(None, use_errno=True)
        system.prctl(SUBREAPER, 1, 0, 0, 0)

        def become_the_program() -> None:
            system.prctl(END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
            if self._start.rights:
                system.prctl(NO_NEW_RIGHTS, 1, 0, 0, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])  # Ray's workers block SIGINT

        wake, woken = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        try:
            program = subprocess.Popen(
                self._start.command,
                env=self._start.environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=become_the_program,
                **self._start.rights,
            )
        except OSError as error:
            self._tell({"error": error.strerror})
            return
        self._program = program.pid
        self._tell({"pid": program.pid})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        while self._reap():
            self._act(descendants() if self._code is not None else [program.pid])
            self._keep_pace()
            self._wait(wake)
        self._tell({"code": self._code, "overdue": self._overdue, "left": self._left})

    def _reap(self) -> bool:
        """Take in who has ended; return whether anything is left.

        The kernel alone knows that: a daemon forks twice, and its second child may be missing in a look at /proc.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._program:
                self._code, self._ended_s = os.waitstatus_to_exitcode(status), time.monotonic()

    def _act(self, rest: list[int]) -> None:
        """End what is due: all after the grace time, and what the program has left behind after its end."""
        late = self._deadline_s is not None and time.monotonic() >= self._deadline_s
        if self._alone or late:
            self._overdue = self._overdue or (late and not self._alone)
            send(descendants(), signal.SIGKILL)
        elif self._code is not None and self._deadline_s is None:
            if time.monotonic() >= self._ended_s + LINGER_S:
                self._left = max(self._left, len(rest))
                send(rest, signal.SIGKILL)
        elif self._code is not None and not self._told_rest:
            # A shell ends without its children, which may want to save as well.
            self._told_rest = True
            send(rest, signal.SIGTERM)

    def _keep_pace(self) -> None:
        """Stop what runs beyond its part of a period, and let it go on in the next one."""
        stops = self._paced and self._into_period_s() >= self._pace * PERIOD_S
        if stops != self._stopped:
            self._stopped = stops
            send(descendants(), signal.SIGSTOP if stops else signal.SIGCONT)

    @property
    def _paced(self) -> bool:
        """Whether the program runs, and nobody has asked it to end."""
        return self._pace < 1 and self._code is None and self._deadline_s is None and not self._alone

    @staticmethod
    def _into_period_s() -> float:
        return time.time() % PERIOD_S

    def _wait(self, wake: int) -> None:
        """Wait for the end of a child, a word of the worker, or the next moment to look."""
        timeout = None if self._deadline_s is None else max(self._deadline_s - time.monotonic(), 0.0)
        if self._code is not None or self._alone or timeout == 0.0:
            timeout = LOOK_S if not timeout else min(timeout, LOOK_S)
        elif self._paced:
            until_s = PERIOD_S if self._stopped else self._pace * PERIOD_S
            timeout = max(until_s - self._into_period_s(), 0.0)
        watched = [wake] if self._alone else [wake, self._control]
        ready, _, _ = select.select(watched, [], [], timeout)
        if wake in ready:
            os.read(wake, 4096)
        if self._control in ready:
            self._listen()

    def _listen(self) -> None:
        data = os.read(self._control, 4096)
        if not data:
            self._alone = True
            return
        *lines, self._waiting = (self._waiting + data).split(b"\n")
        for line in lines:
            if line.startswith(b"pace "):
                self._pace = float(line[5:])
                continue
            if line.startswith(b"cores "):
                keep_to(line[6:].decode(), [os.getpid(), *descendants()])
                continue
            deadline_s = time.monotonic() + float(line)
            if self._deadline_s is None and self._code is None:
                send(
                    inside(self._program, self._start.wrappers), signal.SIGTERM
                )  # it tells its own children as it likes
            self._deadline_s = deadline_s if self._deadline_s is None else min(self._deadline_s, deadline_s)

    def _tell(self, told: dict[str, object]) -> None:
        with suppress(OSError):  # the worker is gone
            os.write(self._result, (json.dumps(told) + "\n").encode())


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    os.setsid()
    control, result, pace, cores, environment, uid, wrappers, *command = sys.argv[1:]
    if cores != ALL:
        keep_to(cores, [os.getpid()])
    program = Program(int(environment), int(uid), int(wrappers), command)
    Guard(int(control), int(result), float(pace), program).run()
