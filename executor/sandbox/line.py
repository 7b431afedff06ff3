"""What keeps a job's processes from all else: the setting `isolation`, for one job and on one machine."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.isolation import Isolation, uid_of
from . import bubblewrap
from .environment import built
from .ownership import closed_to

# What a template may be started with though a job says so: it runs as root, and these can do it no harm.
_HARMLESS = re.compile(r"(OMP|MKL|OPENBLAS|NUMEXPR)_NUM_THREADS|PYTHONUNBUFFERED|PYTHONHASHSEED|LANG|LC_[A-Z]+")
_HARMLESS_VALUE = re.compile(r"[A-Za-z0-9_.@-]*")
_CODE = Path(__file__).parents[2]
_SET_UID = 7  # CAP_SETUID


class IsolationError(RuntimeError):
    """A job's processes cannot be set apart on this machine; one sentence."""


@dataclass(frozen=True)
class Line:
    """Say how the processes of a job are set apart.

    roots: folders below which the service makes those of jobs. `paths`: what processes may write besides.
    passed: variables of the node that processes may see besides.
    """

    isolation: Isolation = Isolation.NONE
    uid: int | None = None
    state_dir: str = ""
    roots: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    @classmethod
    def of(cls, job_id: str, isolation: Isolation, **rest: Any) -> Line:
        """Return the line of a job."""
        return cls(isolation, uid_of(job_id) if isolation is Isolation.USER else None, **rest)


NO_LINE = Line()


@dataclass(frozen=True)
class Sandbox:
    """Be the line around the processes of one worker.

    home: their own folder; "": the one that they run in. `tmp`: what is /tmp inside a namespace.
    own: the folders that they may write.
    """

    line: Line = NO_LINE
    home: str = ""
    tmp: str = ""
    own: tuple[str, ...] = ()

    def environment(self, around: Mapping[str, str], given: Mapping[str, str], cwd: str) -> dict[str, str]:
        """Return all variables of a process; `around`: those of the worker."""
        user = "" if self.line.uid is None else f"coadapt-{self.line.uid}"
        return built(around, given, self.home or cwd, user, self.line.passed)

    def command(self, command: Sequence[str], cwd: str, environment: Mapping[str, str]) -> list[str]:
        """Return the command line of a process, behind bubblewrap in a namespace; `environment`: the process's."""
        if self.line.isolation is not Isolation.NAMESPACE:
            return list(command)
        # A relative path is one of the job's own folder, and bubblewrap would put it over the root.
        told = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(path)]
        libraries = [path for path in told if os.path.isdir(path)]
        code = [os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, str(_CODE), *libraries)]
        return bubblewrap.arguments(
            command,
            cwd,
            hidden=bubblewrap.hidden_folders(os.environ, self.line.state_dir, tempfile.gettempdir()),
            shown=[sys.prefix, *libraries, *code],
            own=[path for path in (cwd, self.home, *self.own, *self.line.paths) if path and os.path.isdir(path)],
            tmp=self.tmp or self.home or cwd,
        )

    @property
    def rights(self) -> dict[str, Any]:
        """Return the options of `subprocess.Popen` by which a process is another user's."""
        uid = self.line.uid
        return {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}

    @property
    def wrappers(self) -> int:
        """Processes between the one that is started and the program."""
        return bubblewrap.WRAPPERS if self.line.isolation is Isolation.NAMESPACE else 0

    def check(self) -> None:
        """Check that processes can be set apart on this machine. Raises: IsolationError."""
        if why := problem(self.line.isolation):
            raise IsolationError(why)

    def may_fork(self, loaded_with: Mapping[str, str], own_python: bool = False) -> bool:
        """Return whether a template may fork the process.

        A template forks before a process is set apart, so it may run no code that a job has a say in.

        Args:
            loaded_with: what the job says of how Python and libraries are loaded.
            own_python: whether the interpreter is one that the job has installed packages into.
        """
        if self.line.isolation is Isolation.NONE:
            return True
        harmless = all(
            _HARMLESS.fullmatch(name) and _HARMLESS_VALUE.fullmatch(value) for name, value in loaded_with.items()
        )
        return harmless and not own_python and self.line.isolation is Isolation.USER

    def exit_code(self, code: int) -> int:
        return bubblewrap.exit_code(code) if self.wrappers else code


NO_SANDBOX = Sandbox()


def problem(isolation: Isolation) -> str:
    """Return why processes cannot be set apart on this machine, in one sentence, or ""."""
    if isolation is Isolation.USER and not _may_change_user():
        return "isolation: user needs a cluster that runs as root, or with CAP_SETUID; `namespace` needs neither"
    if isolation is Isolation.USER:
        for path in (sys.prefix, os.path.realpath(sys.executable), str(_CODE), os.path.realpath(_CODE)):
            if (closed := closed_to(Path(path))) is not None:
                return f"isolation: user: {closed} is closed to other users, so that jobs cannot read {path}"
    return bubblewrap.problem() if isolation is Isolation.NAMESPACE else ""


def _may_change_user() -> bool:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return os.geteuid() == 0
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", text, re.MULTILINE)
    return bool(found and int(found[1], 16) >> _SET_UID & 1)
