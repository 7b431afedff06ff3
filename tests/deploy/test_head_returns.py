"""A head of Ray that dies comes back at once by the units, also where a node of the last one waits for it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.manifests import SYSTEMD

pytestmark = pytest.mark.live
SMALL = "--num-cpus=1 --object-store-memory=83886080 --include-log-monitor=false --node-ip-address=127.0.0.1"


def of_unit(name: str, key: str) -> list[str]:
    """Return what a unit says under a key, as systemd reads it."""
    text = (SYSTEMD / f"{name}.service").read_text().replace("\\\n", " ")
    return [line.replace("$$", "$").lstrip("-") for line in re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)]


def until(so: Callable[[], object], what: str, limit_s: float = 60.0) -> None:
    """Ask again and again, up to a limit."""
    deadline_s = time.monotonic() + limit_s
    while not so():
        assert time.monotonic() < deadline_s, f"{what} after {limit_s:.0f} s"
        time.sleep(0.1)  # processes of Ray tell nobody; up to the limit


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Machine:
    """Starts units as systemd does, on loopback. `node`, `head`: their main processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "COADAPT_"))}
        head = f"--temp-dir={folder}/h --ray-client-server-port={free_port()} --include-dashboard=false {SMALL}"
        labels = folder / "labels.yaml"
        labels.write_text('{"coadapt.io/gpu-type": "t4"}\n')
        (folder / "token").write_text("0123456789abcdef" * 4)
        self.env = kept | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
            "RAY_HEAD": "127.0.0.1",
            "RAY_HEAD_OPTIONS": head,
            "RAY_NODE_OPTIONS": f"--num-gpus=1 --temp-dir={folder}/n {SMALL}",
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, unit: str) -> subprocess.Popen[bytes]:
        (command,) = of_unit(unit, "ExecStart")
        command = command.replace("/opt/coadapt/venv", sys.prefix).replace("6379", str(self.port))
        command = command.replace("/etc/coadapt/labels.yaml", str(self.folder / "labels.yaml"))
        env = self.env | dict(line.split("=", 1) for line in of_unit(unit, "Environment"))
        for before in of_unit(unit, "ExecStartPre"):
            subprocess.run(["sh", "-c", before], env=env, check=False)
        self.started.append(self._popen(f"exec {command}", env, self.folder / f"{unit}.log"))
        return self.started[-1]

    def _popen(self, command: str, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                ["sh", "-c", command], env=env, stdout=output, stderr=output, start_new_session=True
            )

    def said(self, unit: str) -> str:
        return (self.folder / f"{unit}.log").read_text(errors="replace")

    def kill(self) -> None:
        everyone = [process for one in self.started for process in _family(one.pid)]
        everyone += [process for process in psutil.process_iter() if str(self.folder) in _line(process)]
        for process in everyone:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(everyone, timeout=10)


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        one = psutil.Process(pid)
        return [one, *one.children(recursive=True)]
    return []


def _line(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("m"))
    try:
        yield found
    finally:
        found.kill()


def test_a_head_starts_at_once_where_a_node_of_the_last_one_waits_for_it(machine: Machine) -> None:
    head = machine.start("coadapt-head")
    until(lambda: "block forever" in machine.said("coadapt-head"), "the head has not started")
    node = machine.start("coadapt-node")
    until(lambda: "block forever" in machine.said("coadapt-node"), "the node has not joined")
    (gcs,) = (one for one in _family(head.pid) if one.name() == "gcs_server")
    gcs.kill()
    head.wait(60)
    assert node.poll() is None, "the node waits for the head"

    again = machine.start("coadapt-head")
    heads = "block forever"
    until(lambda: again.poll() is not None or machine.said("coadapt-head").count(heads) == 2, "no head has begun")
    assert again.poll() is None, machine.said("coadapt-head")[-500:]
    # It ends, and its unit starts it anew: the new head does not know it. Ray's own minute is more than this.
    node.wait(30)
