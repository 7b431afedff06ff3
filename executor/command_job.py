"""What a `CommandExecutor` is given: plain picklable data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..core.doors import Processes
from ..core.logs import LogFormat
from ..core.service_names import NAMESPACE, SERVICE_NAME
from .commands.reconciler import Rules
from .emulated_gpu import UNKNOWN_PROFILE, TenantProfile
from .sandbox.line import NO_LINE, Line

if TYPE_CHECKING:
    from ..estimators.measurements import Measurements


@dataclass(frozen=True)
class CommandJob:
    """One job that runs a command or an unchanged script, as its executor needs it.

    script: a Python file inside the working directory; "": `command` names the program.
    batch_size, total_steps: what the job's file says of the program; None: nothing.
    status_file, pattern: where the program says how far it is, as in `core.job.ProgressSource`.
    fingerprint: whose measurements it shares.
    """

    id: str
    script: str = ""
    command: tuple[str, ...] = ()
    processes: Processes = Processes.GPU
    rules: Rules = field(default_factory=Rules)
    measured: bool = False  # whether its speed is learned from what it reports
    max_failures: int = 3
    package: str = ""  # of the working directory, on the head's disk; "": runs where its script is
    working_dir: str = ""  # without a package
    folder: str = ""  # names the job's folder on each machine; by default its id
    state_dir: str = ""  # the service's
    env: Mapping[str, str] = field(default_factory=dict)
    pip: tuple[str, ...] = ()
    trackers: tuple[str, ...] = ()  # to which metrics go on
    outputs_url: str = ""  # "": the program is given no output folder
    log_dir: str = ""  # on the head's disk; "": no log files
    head_node: str = ""  # the node with that disk; "": the executor's own
    batch_size: int | None = None
    total_steps: int | None = None
    status_file: str = ""
    pattern: str = ""
    pause_profile: str = ""  # by whose speeds it is stopped for a part of the time, on emulated nodes; "": never
    emulated: TenantProfile = UNKNOWN_PROFILE  # what it uses of emulated GPUs
    fingerprint: str = ""
    report_interval_s: float = 30.0
    measurements: Measurements | None = None  # the service's last copy
    line: Line = NO_LINE  # around its processes
    life: int = 0  # how often the job began again after it had ended
    starts: int = 0  # of its program, before this executor was made
    kept: Mapping[str, Any] = field(default_factory=dict)  # by the executor before this one, when it held nothing
    log_format: LogFormat = LogFormat.TEXT  # of the executor's own log
    service_name: str = SERVICE_NAME
    service_namespace: str = NAMESPACE

    @property
    def called(self) -> str:
        """The program, as sentences name it: its own file, and not the interpreter or starter."""
        files = (word for word in self.command if word.endswith((".py", ".sh")))
        return (self.script or next(files, self.command[0])).rpartition("/")[2]
