"""A managed group whose events come at chosen steps, and whose driver notices when nobody goes on."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, TypeVar

from coadapt.core.batch_plan import BatchPlan
from coadapt.core.reports import Report
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.protocol.messages import Event, Finished, Joined, Left
from coadapt.executor.protocol.wire import Wire
from coadapt.executor.rehearsal.group import LOOK_S, Member, TrainingGroup, Unmet

from .processes import Process, run_member
from .reference import Phase, append_phase

EventType = TypeVar("EventType")
HANG_S = 30.0
# Between two optimizer steps: some fit between two control points, as in real training.
PAUSE_S = 0.012
NEVER = 1 << 60


class HeldMember(Member):
    """A member that knows its group, so that whoever waits for it learns what became of the others."""

    group: HeldGroup

    def wait(
        self, kind: type[EventType], condition: Callable[[EventType], bool] = lambda event: True
    ) -> EventType:
        what = f"{kind.__name__} of process {self.group.members.index(self)}"
        return self.group.until(lambda: self.first(kind, condition), what)


class HeldGroup(TrainingGroup):
    """`gates`: steps after which the process of rank 0 is held until the scenario goes on, in order."""

    def __init__(self, script: Path, folder: Path, gates: Sequence[int], **training: Any) -> None:
        config = TrainingConfig(report_interval_s=0.5, checkpoint=CheckpointConfig(), **training)
        super().__init__(script, folder, config, env={"OUT": str(folder)})
        self.steps = -1  # the highest step that was made
        self._gates = [*gates, NEVER]
        self._holding: Member | None = None
        self._changed = threading.Condition()
        self._alive_s = time.perf_counter()
        self._drivers: list[Connection] = []
        self.limit_s = HANG_S
        self._made_up: dict[int, tuple[int, int]] = {}  # by generation: replicas and passes

    def __exit__(self, *error: Any) -> None:
        self._let_go()
        super().__exit__(*error)

    # --- what scenarios do --------------------------------------------------------------------------------

    @contextmanager
    def held(self, step: int) -> Iterator[Member]:
        """Wait until rank 0 has made `step` steps; it goes on when the block ends."""
        assert self._gates[0] == step, f"gate {step} is not the next one of {self._gates}"
        finished = lambda: any(member.all(Finished) for member in self.group)  # noqa: E731
        self.until(lambda: self._holding or finished(), f"step {step}")
        if self._holding is None:
            raise Unmet(f"the script ended after {self.steps + 1} steps, before step {step}")
        yield self._holding
        with self._changed:
            self._gates.pop(0)
            self._holding = None
            self._changed.notify_all()

    def change(self, members: Sequence[Member], batch: BatchPlan | None = None) -> None:
        """Tell everyone the next group, without waiting for it: for use while rank 0 is held."""
        self._leaving = [member for member in self.group if member not in members]
        self.join(members, batch, wait=False)

    def join(self, members: Sequence[Member], batch: BatchPlan | None = None, wait: bool = True) -> int:
        self._made_up[self.generation + 1] = len(members), batch.accumulation + 1 if batch else 1
        return super().join(members, batch, wait)

    def phases(self) -> list[Phase]:
        """Return how the group was made up, from which step on."""
        begun = {event.generation: event.steps for member in self.members for event in member.all(Joined)}
        phases: list[Phase] = []
        for generation, step in sorted(begun.items()):
            append_phase(phases, Phase(step, *self._made_up[generation]))
        return phases

    def changed(self) -> None:
        """Note that the next group is there, and that whoever is not of it has left."""
        self.wait_joined()
        for member in self._leaving:
            member.wait(Left)

    def lose(self, member: Member) -> None:
        self.killed.add(member)
        member.kill()

    def end(self) -> list[Member]:
        """Wait for the end of the script everywhere; returns the members whose script came to it."""
        self._let_go()
        self.group[0].wait(Finished)
        ended = []
        for member in self.group:
            event: Event = member.wait(object, lambda event: isinstance(event, Finished | Left))  # type: ignore[assignment]
            if isinstance(event, Finished):
                ended.append(member)
            if member.exit_code() != 0:
                raise Unmet(f"process {self.members.index(member)} ended with status {member.exit_code()}")
        return ended

    def reports(self) -> list[Report]:
        """Return reports of all members, in the order in which they came."""
        timed = [(member.time_of(report), report) for member in self.members for report in member.all(Report)]
        return [report for _, report in sorted(timed, key=lambda pair: pair[0])]

    def finished_metrics(self) -> Mapping[str, float]:
        """Return what the job ended with, as its rank 0 says."""
        return self.group[0].all(Finished)[0].metrics

    # --- waiting ------------------------------------------------------------------------------------------

    @property
    def steps_made(self) -> int:
        return self.steps

    def last_heard_s(self, members: Sequence[Member]) -> float:
        return max(super().last_heard_s(members), self._alive_s)

    def pause(self) -> None:
        with self._changed:
            self._changed.wait(LOOK_S)

    def whereabouts(self, members: Sequence[Member]) -> str:
        """Return what the main threads of the processes are doing."""
        for member in members:
            member.process.send_signal(signal.SIGUSR1)
        time.sleep(1.0)  # faulthandler says nothing when it is done
        found = []
        for number, member in enumerate(members):
            text = member.output() if member.process.poll() is None else "ended"
            main = text[text.rfind("Current thread") :].splitlines()
            own = [line.strip() for line in main if "/executor/" in line or str(self.script) in line]
            found.append("\n    ".join([f"process {number}:", *(own[:8] or main[:8])]))
        return "\n".join(found)

    # --- processes ----------------------------------------------------------------------------------------

    def _launch(self, environment: dict[str, str], channel: socket.socket, log: Path) -> Any:
        ours, theirs = Pipe()
        end = Connection(channel.detach())
        process = Process(run_member, self.script, environment, self.folder, log, end, theirs, PAUSE_S)
        end.close()
        theirs.close()
        self._drivers.append(ours)
        return process

    def _member(self, process: Any, wire: Wire, log: Path) -> Member:
        member = HeldMember(process, wire, log)
        member.group = self
        driver = self._drivers[-1]
        threading.Thread(target=self._answer, args=(member, driver), daemon=True).start()
        return member

    def _answer(self, member: Member, driver: Connection) -> None:
        """Let a member of rank 0 make its steps, up to the next gate."""
        with suppress(EOFError, OSError):
            while True:
                step = driver.recv()
                with self._changed:
                    self.steps = max(self.steps, step)
                    self._alive_s = time.perf_counter()
                    if step >= self._gates[0]:
                        self._holding = member
                        self._changed.notify_all()
                        self._changed.wait_for(lambda: self._holding is not member)
                        self._alive_s = time.perf_counter()
                driver.send(None)

    def _let_go(self) -> None:
        with self._changed:
            self._gates = [NEVER]
            self._holding = None
            self._changed.notify_all()
