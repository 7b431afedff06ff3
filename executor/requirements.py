"""The requirements of a job, installed by pip into the job's own folder, on this side of its line.

They lie in a virtual environment over what the node has: what is there already is not installed again.
"""

from __future__ import annotations

import hashlib
import os
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .files.job_folder import alone
from .files.own_folder import pip_lock
from .sandbox.line import Sandbox
from .sandbox.ownership import acting_as

# An environment that sees what another one has, with what is named there by `.pth` files.
_MAKE = """
import pathlib, sys, venv
folder, *paths = sys.argv[1:]
venv.EnvBuilder(clear=True, symlinks=True).create(folder)
(libraries,) = pathlib.Path(folder, "lib").glob("python*/site-packages")
lines = [f"import site; site.addsitedir({path!r})" for path in paths]
(libraries / "node.pth").write_text("\\n".join(lines))
"""
NAME_CHARACTERS = 16


class RequirementsError(RuntimeError):
    """Requirements could not be installed; one sentence, the first error of pip."""


def installed(requirements: Sequence[str], own: Path, sandbox: Sandbox, given: Mapping[str, str], cwd: str) -> str:
    """Install requirements unless they are there, and return the interpreter that sees them.

    Args:
        own: the job's folder beside its working folder.
        given: what the job's processes are given besides; pip is given the same.
        cwd: where relative paths among the requirements begin.

    Raises: RequirementsError.
    """
    name = hashlib.sha256("\0".join([sys.executable, *requirements]).encode()).hexdigest()[:NAME_CHARACTERS]
    folder = own / f"python-{name}"
    python, ready = folder / "bin" / "python", folder / "ready"
    with alone(pip_lock(own)):
        if ready.exists():
            return str(python)
        listed = own / "tmp" / f"requirements-{name}.txt"
        with acting_as(sandbox.line.uid):
            listed.write_text("\n".join(requirements))
        environment = sandbox.environment(os.environ, given, cwd)
        paths = [path for path in (*site.getsitepackages(), site.getusersitepackages()) if os.path.isdir(path)]
        _run([sys.executable, "-I", "-c", _MAKE, str(folder), *paths], sandbox, environment, cwd)
        pip = [str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        _run([*pip, "--requirement", str(listed)], sandbox, environment, cwd)
        with acting_as(sandbox.line.uid):
            ready.touch()
    return str(python)


def first_error(output: str) -> str:
    """Return what pip's pages of output say is wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = (line for line in lines if line.startswith("ERROR: ") and line != "ERROR: Exception:")
    said = next(errors, lines[-1] if lines else "it said nothing")
    return said.removeprefix("ERROR: ")


def _run(command: Sequence[str], sandbox: Sandbox, environment: Mapping[str, str], cwd: str) -> None:
    try:
        done = subprocess.run(
            sandbox.command(command, cwd, environment),
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            **sandbox.rights,
        )
    except OSError as error:
        raise RequirementsError(f"{command[0]} could not be started: {error.strerror}") from error
    if done.returncode:
        raise RequirementsError(first_error(done.stdout.decode(errors="replace")))
