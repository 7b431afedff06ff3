"""The events of a worker actor about its training process, beside the process's own."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from ...core.usage import Usage


@dataclass(frozen=True)
class Started:
    """Report that the training process exists; its script has not reached `prepare` yet."""

    pid: int
    host: str


@dataclass(frozen=True)
class Output:
    """Pass on what the script wrote next: whole lines, or the beginning of one."""

    text: str


@dataclass(frozen=True)
class Exited:
    """Report that the process and everything it started are gone. `code` < 0: killed by signal -code."""

    code: int

    @property
    def reason(self) -> str:
        if self.code >= 0:
            return f"exited with status {self.code}"
        try:
            return f"was killed by {signal.Signals(-self.code).name}"
        except ValueError:
            return f"was killed by signal {-self.code}"

    @property
    def killed(self) -> bool:
        """Tell whether SIGKILL ended it, which the kernel sends if memory runs out."""
        return self.code == -signal.SIGKILL


@dataclass(frozen=True)
class Gone:
    """Report that the worker actor itself is gone and its GPUs are free."""

    reason: str = ""
    setup_failed: bool = False  # its runtime environment (working directory, requirements) could not be made
    out_of_memory: bool = False  # Ray ended it because its node ran out of memory


@dataclass(frozen=True)
class Sampled:
    """Tell how much the process used its GPUs, all of one type, since the last such event."""

    gpu_type: str
    usage: Usage


@dataclass(frozen=True)
class Noticed:
    """Tell what the event log is to say of the worker's GPUs, in one sentence."""

    text: str


@dataclass(frozen=True)
class Bound:
    """Tell which cores its processes keep to from now on, and which the machine has, as `core.cores` lists them.

    `cores` is empty where they keep to none.
    """

    cores: str
    machine: str


WorkerEvent = Started | Output | Sampled | Noticed | Bound | Exited | Gone
