"""The record of a cluster that `coadapt up` has started or joined: how to reach it, and what to end."""

from __future__ import annotations

import hashlib
import json
import ssl
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from ..core.home import default_home


class LocalClusterError(RuntimeError):
    """One sentence on why the cluster could not be started or found."""


@dataclass(frozen=True)
class Process:
    """A process we started; the start time tells it from a later one with the same number."""

    pid: int
    created_s: float

    def alive(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.pid)
            # A clock that was set makes the kernel's and our idea differ by a little.
            return process if abs(process.create_time() - self.created_s) < 2 else None
        except psutil.NoSuchProcess:
            return None


@dataclass(frozen=True)
class NodeProcess:
    """One emulated node: its Ray processes; the first is its raylet. While it sleeps it has none."""

    gpu_type: str
    gpus: int
    processes: tuple[Process, ...] = ()
    pool: str = ""
    cpus: float = 0.0
    memory_gib: float = 0.0


@dataclass(frozen=True)
class ClusterRecord:
    """What is needed to reach a cluster and to end it. `started` is false for one that was there before."""

    address: str
    namespace: str = "coadapt"
    auth_mode: str = "disabled"
    token_path: str = ""
    temp_dir: str = ""
    mark: str = ""
    started: bool = False
    head: tuple[Process, ...] = ()
    nodes: tuple[NodeProcess, ...] = field(default=())
    url: str = ""  # of the scheduler's API
    api_token_path: str = ""  # of the file with the token for it
    tls_cert: str = ""  # of the file with its certificate; "": it speaks no TLS

    @classmethod
    def load(cls, state_dir: str | Path | None = None) -> ClusterRecord | None:
        """Return the recorded cluster, None without one."""
        path = record_path(state_dir)
        try:
            row = json.loads(path.read_text())
            head = tuple(Process(**p) for p in row.pop("head"))
            nodes = tuple(
                NodeProcess(
                    n["gpu_type"],
                    n["gpus"],
                    tuple(Process(**p) for p in n["processes"]),
                    n.get("pool", ""),
                    n.get("cpus", 0.0),
                    n.get("memory_gib", 0.0),
                )
                for n in row.pop("nodes")
            )
            return cls(**row, head=head, nodes=nodes)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise LocalClusterError(f"{path}: not a cluster record ({error}); remove it") from error

    def save(self, state_dir: str | Path | None = None) -> None:
        path = record_path(state_dir)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(asdict(self), indent=1))
        beside.replace(path)

    @property
    def alive(self) -> bool:
        """Whether the head runs; unknown clusters are taken to."""
        return not self.started or (bool(self.head) and self.head[0].alive() is not None)

    def fingerprint(self) -> str | None:
        """Return the SHA-256 of the API's certificate, by which its own machine knows it; None: no TLS.

        A certificate names the machine as others reach it, and may be of a CA that this machine does not know.
        """
        try:
            pem = Path(self.tls_cert).read_text() if self.tls_cert else ""
            return hashlib.sha256(ssl.PEM_cert_to_DER_cert(_first_certificate(pem))).hexdigest() if pem else None
        except (OSError, ValueError):
            return None

    def token(self) -> str:
        """Return the token of the API; "" if there is none."""
        try:
            return Path(self.api_token_path).read_text().strip() if self.api_token_path else ""
        except OSError:
            return ""

    def environment(self) -> dict[str, str]:
        """Return what a process needs in its environment to connect."""
        env = {"RAY_AUTH_MODE": self.auth_mode}
        return env | {"RAY_AUTH_TOKEN_PATH": self.token_path} if self.token_path else env


def record_path(state_dir: str | Path | None = None) -> Path:
    return Path(state_dir or default_home()) / "cluster.json"


def _first_certificate(pem: str) -> str:
    """Return the first certificate of a chain, which is the server's own."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    at = pem.index(begin)
    return pem[at : pem.index(end, at) + len(end)]
