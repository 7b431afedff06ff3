"""Run a program of `benchmarks.doors` by hand, and compare two runs of it."""

from __future__ import annotations

import math
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from .doors_programs import FOLDER, OUT, Program

LIMIT_S = 120.0
ROUND_OFF = 1e-3  # relative: other sizes add up gradients in another order
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


@dataclass(frozen=True)
class Outcome:
    """How a program ended: whether with status 0, its result, and what is told of its error."""

    good: bool
    result: str
    reason: str = ""

    def unlike(self, hand: Outcome) -> list[str]:
        """Return in which way this is another outcome than by hand, a sentence each."""
        if self.good != hand.good:
            return [f"it {in_words(self)}; by hand it {in_words(hand)}"]
        if not hand.good:
            told = hand.result in self.reason
            return [] if told else [f"its reason is {self.reason!r}; by hand its error is {hand.result!r}"]
        if not alike(self.result, hand.result):
            return [f"its result is {self.result[:200]!r}; by hand it is {hand.result[:200]!r}"]
        return []


def in_words(outcome: Outcome) -> str:
    shown = outcome.result.splitlines()[-1][:40] if outcome.result else "nothing"
    return f"{'ended' if outcome.good else 'failed'}: {shown}"


def alike(one: str, other: str) -> bool:
    """Return whether two texts are the same but for round-off in their numbers."""
    if not one or NUMBER.sub("", one) != NUMBER.sub("", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=ROUND_OFF, abs_tol=1e-6) for a, b in pairs)


def by_hand(program: Program, folder: Path) -> Outcome:
    """Run a program in a copy of its folder; what it leaves running is ended."""
    shutil.copytree(FOLDER, folder)
    out = folder / "out"
    out.mkdir()
    here = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    words = [word.replace(OUT, str(out)) for word in program.hand]
    commands = [words] if program.nodes == 1 else [*of_nodes(words, program.nodes)]
    running = [
        subprocess.Popen(command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for command in commands
    ]
    try:
        said = [process.communicate(timeout=LIMIT_S)[0] for process in running]
    finally:
        end_what_runs_in(folder)
    return Outcome(not any(process.returncode for process in running), program.result("".join(said), out))


def of_nodes(words: Sequence[str], nodes: int) -> list[list[str]]:
    """Return torchrun's command for each node."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    meeting = ["--nnodes", str(nodes), "--master-addr", "127.0.0.1", "--master-port", str(port)]
    return [[words[0], *meeting, "--node-rank", str(rank), *words[1:]] for rank in range(nodes)]


def end_what_runs_in(folder: Path) -> None:
    """End processes that a program has left behind; they work in its folder."""
    for process in psutil.process_iter(["cwd"]):
        if process.info["cwd"] == str(folder):
            with suppress(psutil.Error):
                process.kill()
