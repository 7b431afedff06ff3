"""`coadapt submit train.py`: offers the job file that a script lacks."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from ..client.command_line import name_for
from ..client.jobfile import JobFileError, load
from ..client.script_check import unprepared
from ..core.job import Emulation


@dataclass(frozen=True)
class Offer:
    """A job file that may be written beside a script."""

    path: Path
    text: str

    def write(self) -> None:
        """Write the file. Raise JobFileError if it exists by now or cannot be written."""
        try:
            with self.path.open("x", encoding="utf-8") as file:
                file.write(self.text)
        except OSError as error:
            raise JobFileError(str(self.path), [f"cannot be written: {error.strerror or error}"]) from None


def offer(script: Path) -> Offer:
    """Return the job file for a script that has none.

    Raise JobFileError, in one sentence, if the script is missing or a job file describes it already.
    """
    if not script.is_file():
        raise JobFileError(
            str(script), [f"cannot be read: {'it is no file' if script.exists() else 'it is not there'}"]
        )
    places = dict.fromkeys([script.with_name("job.yaml"), script.with_name(f"{script.stem}.yaml")])
    for path in places:
        if _describes(path, script):
            raise JobFileError(str(script), [f"is a Python script; its job file is there: {submit(path)}"])
    free = next((path for path in places if not path.exists()), None)
    if free is None:
        there = " and ".join(str(path) for path in places)
        raise JobFileError(str(script), [f"is a Python script; {there} are other jobs' and are not written over"])
    return Offer(free, text_for(script))


def text_for(script: Path) -> str:
    """Return the text of a job file. Two fields are enough.

    The pace of emulated nodes is there too, because a first user changes it. A script that never calls
    coadapt.prepare gets the file of a plain job.
    """
    pace = Emulation()
    first = (
        "# A job file: `coadapt schema` and docs/guide/job-file.md have every field.\n"
        f"name: {name_for(script)}\n"
        f"script: {_quoted(script.name)}\n"
    )
    if unprepared(script):
        return (
            f"{first}elastic: false  # it never calls coadapt.prepare, so it runs as it is: docs/guide/doors.md\n"
            "resources:\n"
            "  gpus: 1  # how many it gets\n"
        )
    return (
        f"{first}emulation:  # of nodes that are emulated on CPU; GPUs are never paced\n"
        f"  profile: {pace.profile}  # whose speed to take\n"
        f"  time_scale: {pace.time_scale:g}  # how many times faster\n"
    )


def submit(path: Path, *options: str) -> str:
    """Return the exact command that submits a file."""
    return f"`coadapt submit {' '.join([shlex.quote(str(path)), *options])}`"


def answer(script: Path, write: bool) -> str:
    """Write the job file of a script if the user agrees. Return a line for stderr that says what was done.

    Raise JobFileError if nothing was written.
    """
    found = offer(script)
    if not write:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            command = submit(script, "--write")
            told = f"is a Python script, and submit takes job files; {command} writes {found.path} for it"
            raise JobFileError(str(script), [told])
        import typer

        typer.echo(f"{script} is a Python script. A job file for it, {found.path}:\n\n{found.text}", err=True)
        if not typer.confirm("Write it?", err=True):
            raise JobFileError(str(script), ["is a Python script; nothing was written or submitted"])
    found.write()
    return f"{found.path} is written; look it over, then {submit(found.path)}"


def _describes(path: Path, script: Path) -> bool:
    try:
        spec = load(path)
        return (Path(spec.working_dir) / spec.script).samefile(script)
    except (JobFileError, OSError):
        return False


def _quoted(name: str) -> str:
    """Return a name quoted as YAML needs it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*\.py", name) else "'" + name.replace("'", "''") + "'"
