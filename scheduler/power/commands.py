"""Powers machines by the operator's commands: lists of words, run without a shell and within a time limit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

import psutil

from ...core.power_settings import MACHINE
from .adapter import AdapterError
from .machine import Machine

MARK = "COADAPT_POWER"  # in the environment of every command
MOST_BYTES = 4096  # of what a command has printed, its end


class Commands:
    """An adapter that runs commands.

    Args:
        words: of `sleep`, `wake` and `state`; {machine} stands for the machine's name in them.
        limit_s: a command that takes longer is killed with all that it started in its session.
        mark: tells commands of this cluster from those of others.
    """

    def __init__(self, words: Mapping[str, Sequence[str]], limit_s: float, mark: str = "") -> None:
        self._words, self._limit_s, self._mark = words, limit_s, mark

    def sleep(self, machine: Machine) -> None:
        self._run("sleep", machine)

    def wake(self, machine: Machine) -> None:
        self._run("wake", machine)

    def is_on(self, machine: Machine) -> bool:
        return said_on(self._run("state", machine))

    def end_left_over(self) -> None:
        """End commands of an earlier service that was killed: they would still act, and nobody would know."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self._mark and os.getsid(process.pid) == process.pid:
                    os.killpg(process.pid, signal.SIGKILL)

    def _run(self, verb: str, machine: Machine) -> str:
        """Return the end of what a command has printed. Raises: AdapterError."""
        words = [word.replace(MACHINE, machine.name) for word in self._words[verb]]
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, MARK: self._mark},
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:  # ValueError: a NUL in a word
                why = getattr(error, "strerror", None) or str(error)
                raise AdapterError(f"{verb}: {words[0]} cannot be run: {why}") from None
            try:
                code = process.wait(self._limit_s)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise AdapterError(
                    f"{verb}: {words[0]} did not end in {self._limit_s:g} s and was killed"
                ) from None
            output.seek(max(output.seek(0, os.SEEK_END) - MOST_BYTES, 0))
            text = output.read().decode(errors="replace")
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
            raise AdapterError(f"{verb}: {words[0]} {how}: {_last_line(text)}")
        return text


def said_on(text: str) -> bool:
    """Return what a command has said of a machine: the last word that is on or off. Raises: AdapterError."""
    words = re.findall(r"\b(on|off)\b", text, re.IGNORECASE)
    if not words:
        raise AdapterError(f"state: it printed neither on nor off: {_last_line(text)}")
    return str(words[-1]).lower() == "on"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = lines[-1] if lines else "it printed nothing"
    return "".join(character if character.isprintable() else "�" for character in line)[:200]
