"""What users read of a command that they type wrongly, a file that they give, or machines that misbehave.

Each way has `how`, in which words it is reached, and `answer`, which returns the sentence; "" if nothing is said.
"""

from __future__ import annotations

import io
import os
import shlex
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from unittest.mock import patch

from coadapt.cli.main import run
from coadapt.client import jobfile
from coadapt.core.cluster import Cluster, Node
from coadapt.core.errors import PowerError
from coadapt.core.power_settings import VERBS, PowerSettings
from coadapt.deploy import power_file
from coadapt.scheduler.nodes.machine_table import MachineTable
from coadapt.scheduler.power.commands import Commands
from coadapt.scheduler.power.control import PowerControl
from coadapt.scheduler.power.hands import PowerHands
from coadapt.scheduler.power.machine import Machine
from coadapt.scheduler.power.reactions import Answer, Do
from coadapt.scheduler.runtime import ray_private
from coadapt.simulator.node_series.series_file import read_series

from tests.support.machines import MachineWorld, NotingHands

TWO_JOBS = "".join(f'{{"id": "{id}", "submit_s": 0, "duration_s": 60}}\n' for id in "ab")
# Its nodes are read last and refused, so that nothing is ever started.
UP = ("up", "--emulate", "none")
POOLS = Cluster(
    (Node("n1", "a100", 8, pool="lab"), Node("n2", "a100", 8, pool="big"), Node("n3", "a100", 8, pool="big"))
)


class Way(Protocol):
    """A way in which a user reaches an answer. {dir} stands for the folder of the user's files."""

    @property
    def how(self) -> str: ...

    def answer(self, folder: Path) -> str: ...


def typed(words: Sequence[str], folder: Path) -> str:
    """Return what a command says on stderr, without its name; "" where it has succeeded."""
    out, err = io.StringIO(), io.StringIO()
    home = patch.dict(os.environ, COADAPT_HOME=str(folder / "home"))
    with home, redirect_stdout(out), redirect_stderr(err):
        code = run([word.replace("{dir}", str(folder)) for word in words])
    return err.getvalue().strip().removeprefix("coadapt: ") if code else ""


@dataclass(frozen=True)
class Simulated:
    """`coadapt simulate` of a trace, with these words behind it. `files`: further ones beside the trace."""

    words: str = ""
    trace: str = TWO_JOBS
    cluster: str = "1x any:1"
    policy: str = "qssf"
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def how(self) -> str:
        return f"coadapt simulate --policy {self.policy} {self.words}".strip()

    def answer(self, folder: Path) -> str:
        for name, text in {"trace.jsonl": self.trace, **self.files}.items():
            (folder / name).write_text(text)
        begins = ["simulate", "--trace", "{dir}/trace.jsonl", "--cluster", self.cluster, "--policy", self.policy]
        return typed([*begins, *shlex.split(self.words)], folder)


@dataclass(frozen=True)
class Started:
    """`coadapt up`, which starts nothing. `power`, `scaling`: texts of the files that these options name."""

    words: str = ""
    power: str | None = None
    scaling: str | None = None
    of: Sequence[str] = UP

    @property
    def how(self) -> str:
        files = {"power": self.power, "scaling": self.scaling}
        told = [f" --{name} FILE" for name, text in files.items() if text is not None]
        return f"coadapt up {self.words}".strip() + "".join(told)

    def answer(self, folder: Path) -> str:
        words = [*self.of, *shlex.split(self.words)]
        if self.power is not None:
            (folder / "power.yaml").write_text(self.power)
            words += ["--power", "{dir}/power.yaml"]
        if self.scaling is not None:
            (folder / "scaling.yaml").write_text(self.scaling)
            words += ["--scaling", "{dir}/scaling.yaml"]
        return typed(words, folder)


@dataclass(frozen=True)
class Both:
    """Words that `coadapt simulate` and `coadapt up` both take, and that both answer alike."""

    words: str
    policy: str = "qssf"

    @property
    def how(self) -> str:
        return f"coadapt simulate, coadapt up --policy {self.policy} {self.words}"

    def answer(self, folder: Path) -> str:
        simulated = Simulated(self.words, policy=self.policy).answer(folder)
        started = Started(f"--policy {self.policy} {self.words}").answer(folder)
        return simulated if simulated == started else f"{simulated}\n{started}"


@dataclass(frozen=True)
class SeriesFile:
    """A file of node counts."""

    text: str
    how: str = "a file of node counts"

    def answer(self, folder: Path) -> str:
        path = folder / "nodes.csv"
        path.write_text(self.text)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                read_series(path)
            except ValueError as error:
                return str(error)
        return "\n".join(str(one.message) for one in told)


@dataclass(frozen=True)
class PoolJob:
    """A job file, submitted to a cluster of the pools lab (8 a100) and big (16 a100)."""

    text: str
    how: str = "coadapt submit job.yaml"

    def answer(self, folder: Path) -> str:
        path = folder / "job.yaml"
        path.write_text(f"name: demo\nscript: train.py\n{self.text}")
        (folder / "train.py").write_text("import coadapt\n")
        return "\n".join(f"{path}: {problem}" for problem in jobfile.misfits(jobfile.load(path), POOLS))


@dataclass(frozen=True)
class Told:
    """What is told of facts that no file or command could name, as of a clock that was set back."""

    how: str
    tell: Callable[[], object]

    def answer(self, folder: Path) -> str:
        try:
            self.tell()
        except ValueError as error:
            return str(error)
        return ""


class CommandHands(NotingHands):
    """Really runs the operator's commands, and says of Ray that nothing else is on a node."""

    def __init__(self, power: PowerSettings) -> None:
        super().__init__()
        self._answered = threading.Event()
        words = {verb: getattr(power, verb) for verb in VERBS}
        self._hands = PowerHands(Commands(words, power.command_limit_s), str, ray_private, self._answered.set)

    def do(self, what: Do, machine: Machine) -> None:
        super().do(what, machine)
        if what is Do.LOOK:
            self.ready[machine.name] = Answer(what, True)
        elif what in (Do.SLEEP, Do.WAKE, Do.STATE):
            self._answered.clear()
            self._hands.do(what, machine)
            assert self._answered.wait(60.0), f"{what.value} of {machine.name} was not answered"
            self.ready |= self._hands.answers()


class CommandedWorld(MachineWorld):
    """Machines m0 and m1 of 4 a100 and 2 t4 under a power file. Time passes by ticks."""

    def __init__(self, folder: Path, power: str) -> None:
        path = folder / "power.yaml"
        path.write_text(power)
        self._power = power_file.load(path)
        super().__init__(folder, "a100:4 t4:2", self._power)

    def open(self) -> None:
        super().open()
        self.hands = CommandHands(self._power)
        self.control = PowerControl(self._power, MachineTable(self.store), self.hands)

    def fall_asleep(self) -> None:
        """Let m0 fall asleep, all the way."""
        self.order("sleep", "m0")
        self.tick()
        self.away.add("m0")
        for _ in range(4):
            self.tick()
        assert self.states() == "m0 asleep", self.told()


@dataclass(frozen=True)
class Powered:
    """Machines under a power file. `story`: what happens to them; what is told last is the answer."""

    how: str
    power: str
    story: Callable[[CommandedWorld], object]

    def answer(self, folder: Path) -> str:
        world = CommandedWorld(folder, self.power)
        try:
            self.story(world)
            return world.told()[-1]
        except PowerError as error:
            return str(error)
        finally:
            world.store.close()
