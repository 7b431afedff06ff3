"""The messages on a template's socket, and which processes may come from the same template.

A message is its length, JSON, and descriptors that travel with it. The template sends `READY` and takes one
message of each connection. It names an owner. One that asks for a fork brings a file of memory with the
`ForkRequest`. Only the forked process reads it, as other jobs are forked from the same template. The answer is
`{"pid": …}` with a pidfd, and at the process's end `{"status": …}`.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

READY = {"ready": True}
MESSAGE_BYTES = 16 << 20  # arguments and environment; the kernel takes less

# Variables with these prefixes matter when Python starts or libraries are loaded. Another value needs another
# template.
_LOADED_WITH = (
    *("PYTHON", "LD_", "GLIBC_", "MALLOC_", "LANG", "LC_"),
    *("TORCH", "PYTORCH_", "ATEN_", "NUMBA_", "NPY_", "NUMPY_", "FSSPEC_", "PYDANTIC_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "VECLIB_", "NUMEXPR_", "DNNL_", "ONEDNN_"),
)
# Threadpoolctl and scikit-learn set them in each process that loads them: the service, and no worker.
_SET_BY_LIBRARIES = frozenset({"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"})
# One thread per emulated replica: several share a machine, and the pace sets their speed, not the cores.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_OURS = Path(__file__).parents[2]
_IMPORTED = ("core", "estimators", "executor")  # rooms that a training process loads


class WireError(ConnectionError):
    """Report that the other side went away or sent no message."""


@dataclass(frozen=True)
class Owner:
    """Name whom a template serves; it ends soon after the last of its owners.

    `session` keeps clusters on one machine apart. `pid` is of a process that lives as long as processes may be
    asked for: a Ray worker's raylet.
    """

    session: str
    pid: int


@dataclass(frozen=True)
class ForkRequest:
    """Describe one process to start: command line, environment and working directory."""

    script: str
    args: Sequence[str]
    env: Mapping[str, str]  # all of it but what `paths` add
    cwd: str
    paths: Sequence[str]  # folders to import from, after the script's own
    owner: Owner
    kind: Literal["script", "helper"] = "script"  # "helper": of the machine, on the Unix socket `script`
    uid: int | None = None  # of its user; None: the template's
    python: str = ""  # the interpreter, by default this process's own

    @property
    def environment(self) -> dict[str, str]:
        """Return all of it: what the script starts imports from the same folders."""
        return with_paths(self.env, self.paths)

    def message(self) -> dict[str, Any]:
        """Return what the template is told; the rest lies in the file that goes with it."""
        return {**asdict(self.owner), "fork": True, "lasts": self.kind != "script"}

    def file(self) -> int:
        """Return a new file of memory that holds the request; the caller has to close it."""
        file = os.memfd_create("coadapt-request")
        with os.fdopen(os.dup(file), "wb") as writing:
            writing.write(json.dumps(asdict(self)).encode())
        return file

    @classmethod
    def read(cls, file: int) -> ForkRequest:
        """Return the request that a file of memory holds, and close it."""
        with os.fdopen(file, "rb") as reading:
            reading.seek(0)
            told = json.loads(reading.read(MESSAGE_BYTES))
        return cls(**{**told, "owner": Owner(**told["owner"])})


def with_paths(env: Mapping[str, str], paths: Sequence[str]) -> dict[str, str]:
    """Return an environment in which Python imports from `paths` before the folders it names already."""
    given = env.get("PYTHONPATH")
    return {**env, "PYTHONPATH": os.pathsep.join([*paths, *([given] if given else [])])} if paths else dict(env)


def without_relative_paths(env: Mapping[str, str], cwd: str) -> tuple[dict[str, str], list[str]]:
    """Return an environment without relative folders in PYTHONPATH, and those folders made absolute."""
    named = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    kept = [path for path in named if os.path.isabs(path)]
    if kept == named:
        return dict(env), []
    others = {name: value for name, value in env.items() if name != "PYTHONPATH"}
    gone = [os.path.join(cwd, path) for path in named if path not in kept]
    return with_paths(others, kept), gone


def loaded_with(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that matter when libraries are loaded."""
    return {
        name: value
        for name, value in sorted(env.items())
        if name.startswith(_LOADED_WITH) and name not in _SET_BY_LIBRARIES
    }


def template_key(env: Mapping[str, str], session: str, python: str = "") -> str:
    """Return the name of a template, the same for one user, session, interpreter, code and libraries."""
    here = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt")]
    what = [session, os.getuid(), here, python or sys.executable, _code(), loaded_with(env)]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:20]


def _code() -> list[Any]:
    """Return what changes when our code or torch is installed anew."""
    torch = find_spec("torch")
    files = code_files(_OURS)
    if torch is not None and torch.origin:
        files.append(Path(torch.origin).with_name("version.py"))
    return [str(_OURS), *((str(path), path.stat().st_mtime_ns) for path in files)]


def code_files(root: Path) -> list[Path]:
    """Return the files of ours that a training process may import, by name."""
    return sorted([*root.glob("*.py"), *(path for room in _IMPORTED for path in (root / room).rglob("*.py"))])


def send(connection: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send a message. Raises: OSError if the other side is gone."""
    text = json.dumps(message).encode()
    socket.send_fds(connection, [len(text).to_bytes(8, "big")], list(descriptors))
    connection.sendall(text)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return one message and its descriptors, which the caller has to close.

    Raises: WireError at the end of the connection and for anything but a message; TimeoutError.
    """
    head, descriptors, flags, _ = socket.recv_fds(connection, 8, 8)
    try:
        if flags & socket.MSG_CTRUNC:
            raise WireError("descriptors were lost")
        size = int.from_bytes(head + _exactly(connection, 8 - len(head)), "big")
        if size > MESSAGE_BYTES:
            raise WireError(f"a message of {size} bytes; at most {MESSAGE_BYTES} are taken")
        message = json.loads(_exactly(connection, size))
        if not isinstance(message, dict):
            raise WireError("no message")
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    return message, descriptors


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise WireError("the connection ended")
        parts += part
    return bytes(parts)
