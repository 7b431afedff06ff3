"""`coadapt submit train.py`: the job file that a script lacks."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from ..client.jobfile import JobFileError, load
from ..core.job import Emulation

GENERAL = frozenset({"train", "main", "run", "script", "job"})  # names of scripts that say nothing of them


@dataclass(frozen=True)
class Offer:
    """A job file that may be written beside a script."""

    path: Path
    text: str

    def write(self) -> None:
        """Raises JobFileError where the file is there by now, or cannot be written."""
        try:
            with self.path.open("x", encoding="utf-8") as file:
                file.write(self.text)
        except OSError as error:
            raise JobFileError(str(self.path), [f"cannot be written: {error.strerror or error}"]) from None


def offer(script: Path) -> Offer:
    """The job file for a script, to be written where none is.

    Raises JobFileError, in one sentence, for a script that is not there, and where one describes it already.
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
    """Two fields are enough; the pace of emulated nodes is the one that a first user changes."""
    pace = Emulation()
    return (
        "# A job file: `coadapt schema` and docs/guide/job-file.md have every field.\n"
        f"name: {name_for(script)}\n"
        f"script: {_quoted(script.name)}\n"
        "emulation:  # of nodes that are emulated on CPU; GPUs are never paced\n"
        f"  profile: {pace.profile}  # whose speed to take\n"
        f"  time_scale: {pace.time_scale:g}  # how many times faster\n"
    )


def name_for(script: Path) -> str:
    """Of the script, or of its folder where the script has a name that says nothing."""
    folder = script.resolve().parent.name
    text = folder if script.stem.lower() in GENERAL and folder else script.stem
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")[:63] or "job"


def submit(path: Path, *options: str) -> str:
    """The exact command."""
    return f"`coadapt submit {' '.join([shlex.quote(str(path)), *options])}`"


def answer(script: Path, write: bool) -> str:
    """Write the job file of a script, where the user wants it; what was done, in a line for stderr.

    Raises JobFileError where nothing was written.
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
    """A name as YAML reads it back."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*\.py", name) else "'" + name.replace("'", "''") + "'"
