"""The namespace of a job's processes, as arguments of bubblewrap (https://github.com/containers/bubblewrap)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = "bwrap"
TRY_S = 20.0
# Between bubblewrap's own process and the program there is one more, which is the namespace's first.
WRAPPERS = 2


def arguments(
    command: Sequence[str],
    cwd: str,
    *,
    hidden: Sequence[str],
    shown: Sequence[str],
    own: Sequence[str],
    tmp: str,
) -> list[str]:
    """Return a command that runs another one in a namespace of its own.

    The machine is there, read-only. Processes outside are neither seen nor reached. The network is the machine's.

    Args:
        hidden: folders that are empty inside.
        shown: folders below these that are there all the same, read-only: Python and its packages.
        own: folders that the command may write.
        tmp: the folder that is /tmp inside.
    """
    told = [PROGRAM, "--unshare-user", "--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/"]
    told += ["--dev-bind", "/dev", "/dev", "--proc", "/proc"]
    for path in _outermost(hidden):
        told += ["--tmpfs", path]
    told += ["--bind", tmp, "/tmp"]
    for path in _outermost(shown):
        told += ["--ro-bind", path, path]
    for path in sorted(set(own), key=lambda path: path.count("/")):
        told += ["--bind", path, path]
    return [*told, "--chdir", cwd, "--", *command]


def hidden_folders(environment: Mapping[str, str], state_dir: str, temporary: str) -> list[str]:
    """Return the folders that hold what is not for jobs: the user's home, the cluster's state, all sockets."""
    wanted = [environment.get("HOME", ""), state_dir, temporary, "/tmp", "/var/tmp", "/run/user"]
    return [path for path in dict.fromkeys(wanted) if path not in ("", "/") and os.path.isdir(path)]


def exit_code(code: int) -> int:
    """Return the exit code of the program behind bubblewrap, negative for a signal."""
    return 128 - code if 128 < code < 128 + 65 else code


def problem() -> str:
    """Return why no namespace can be made on this machine, in one sentence, or ""."""
    if shutil.which(PROGRAM) is None:
        return f"isolation: namespace needs the program {PROGRAM} (package bubblewrap), which is not here"
    tried = arguments(["/bin/true"], "/", hidden=(), shown=(), own=(), tmp="/tmp")
    try:
        done = subprocess.run(tried, capture_output=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"isolation: namespace cannot be made here: {error}"
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return f"isolation: namespace cannot be made here: {said[-1] if said else f'{PROGRAM} failed'}"
    return ""


def _outermost(paths: Sequence[str]) -> list[str]:
    """Return folders without those that lie in others of them."""
    found = sorted({os.path.normpath(path) for path in paths})
    return [path for path in found if not any(Path(path).is_relative_to(one) for one in found if one != path)]
