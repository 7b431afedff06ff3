"""A machine that boots the units of `deploy/systemd`, for `deploy.py`: a systemd in namespaces of its own.

It sees a network with a loopback alone, and no units but ours and empty targets. Its /opt, /etc and /var/lib lie
over those of this machine. It is switched off by ending its first process, with which all others end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tests.support.manifests import SYSTEMD

from .clusters import SMALL, Commands, Stranger, until

SYSTEMD_PROGRAM = Path("/lib/systemd/systemd")
TARGETS = ("sysinit", "basic", "shutdown", "network-online", "multi-user", "local-fs", "umount")
NAMESPACES = ["--pid", "--mount", "--uts", "--ipc", "--net"]
BOOT = """
set -e
mount --make-rprivate /
ip link set lo up
for at in opt etc var/lib; do
    mkdir -p {folder}/over/$at {folder}/work/$at
    mount -t overlay overlay -o lowerdir=/$at,upperdir={folder}/over/$at,workdir={folder}/work/$at /$at
done
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
export container=other SYSTEMD_UNIT_PATH={folder}/units
exec {systemd} --system --unit=multi-user.target
"""


def why_not() -> str:
    """Return why such a machine cannot be made here, or ""."""
    if os.geteuid() != 0:
        return "it needs root"
    if Path("/run/systemd/system").exists():
        return "this machine has a systemd, whose groups of processes would be shared"
    absent = [one for one in ("unshare", "nsenter", "ip", "systemctl") if shutil.which(one) is None]
    if absent or not SYSTEMD_PROGRAM.exists():
        return f"{', '.join(absent) or SYSTEMD_PROGRAM} is not there"
    made = subprocess.run(["unshare", *NAMESPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    return "" if made.returncode == 0 else made.stderr.strip()


class Machine(Commands):
    """A head that is its own GPU machine. All units run as root, as its Python may be closed to others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH="/etc/coadapt/ray_token")
        self.env["COADAPT_HOME"] = "/var/lib/coadapt"
        self._first: int | None = None
        units, wants = folder / "units", folder / "units" / "multi-user.target.wants"
        wants.mkdir(parents=True)
        for name in TARGETS:
            (units / f"{name}.target").write_text(f"[Unit]\nDescription={name}\nDefaultDependencies=no\n")
        for path in SYSTEMD.glob("*.service"):
            text = path.read_text().replace("User=coadapt\n", "").replace("--port=6379", "--port=6379 " + SMALL)
            (units / path.name).write_text(text)
            (wants / path.name).symlink_to(units / path.name)
        own = folder / "over"
        for name in ("ray", "coadapt"):
            link = own / "opt" / "coadapt" / "venv" / "bin" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(sys.executable).parent / name)
        settings = own / "etc" / "coadapt"
        settings.mkdir(parents=True)
        text = (SYSTEMD / "coadapt.env").read_text().replace("head.example.com", "127.0.0.1")
        text = text.replace("--checkpoints /shared/coadapt/checkpoints", f"--checkpoints {folder}/checkpoints")
        text = text.replace("RAY_HEAD_OPTIONS=", f"RAY_HEAD_OPTIONS=--temp-dir={folder}/h")
        text = text.replace("RAY_NODE_OPTIONS=", f'RAY_NODE_OPTIONS="--num-gpus=1 --temp-dir={folder}/n {SMALL}"')
        (settings / "coadapt.env").write_text(f"{text}PYTHONPATH={os.environ.get('PYTHONPATH', '')}\n")
        (settings / "ray_token").write_text("0123456789abcdef" * 4)
        (settings / "labels.yaml").write_text('{"coadapt.io/gpu-type": "t4", "coadapt.io/emulated": "true"}\n')
        (folder / "boot.sh").write_text(BOOT.format(folder=folder, systemd=SYSTEMD_PROGRAM))

    def said(self, *command: str) -> str:
        """Return what a program prints on that machine."""
        if self._first is None or not psutil.pid_exists(self._first):
            raise Stranger("the machine is off")
        return super().said("nsenter", "-t", str(self._first), "-m", "-p", "-u", "-i", "-n", "--", *command)

    def boots(self, figures: dict[str, float]) -> str:
        """Switch it on, and run a job there."""
        began_s = time.monotonic()
        self._switch_on()
        figures["boot_up_s"] = time.monotonic() - began_s
        job_id = self.job_succeeds()
        if (found := self._logs(job_id)) != {"scheduler", "api", "executor"}:
            raise Stranger(f"logs in JSON are those of {', '.join(sorted(found)) or 'nobody'}")
        return f"{job_id} succeeded, and all logs are JSON"

    def _logs(self, job_id: str) -> set[str]:
        """Return who has logged a JSON object a line, with its job if it is an executor."""
        rows = []
        for path in self.folder.glob("[hn]/session_*/logs/worker-*.err"):
            lines = path.read_text(errors="replace").splitlines()
            rows += [json.loads(line) for line in lines if line.startswith('{"time"')]
        return {row["component"] for row in rows if row["component"] != "executor" or row["job"] == job_id}

    def _switch_on(self) -> None:
        outer = self.start(["unshare", *NAMESPACES, "--fork", "--kill-child", "bash", "boot.sh"], "boot.log")
        inside = until(lambda: psutil.Process(outer.pid).children(), "the machine boots", 20)
        self._first = inside[0].pid
        try:
            until(lambda: self.said("coadapt", "list", "--json"), "the scheduler answers")
        except Stranger as error:
            raise Stranger(f"{error}; {self._units()}") from None

    def _units(self) -> str:
        with suppress(Stranger):
            return f"units: {', '.join(self._states())}"
        return "systemd does not answer"

    def survives_the_end_of_ray(self, figures: dict[str, float]) -> str:
        """End Ray's control plane while a job runs, and wait until the job runs again."""
        job_id = self.submit("saves")
        until(lambda: "stays" in self.said("coadapt", "logs", job_id), f"{job_id} runs")
        before = self._invocation()
        began_s = time.monotonic()
        gcs = [one for one in psutil.process_iter(["name"]) if one.info["name"] == "gcs_server"]
        for one in gcs:
            if self._is_inside(one):
                one.kill()
        until(lambda: self._invocation() != before, "the unit of the scheduler restarts")
        until(lambda: self.jobs().get(job_id) == "running", f"{job_id} runs again")
        figures["ray_back_s"] = time.monotonic() - began_s
        return f"{job_id} runs again"

    def _invocation(self) -> str:
        """Return what names this start of the scheduler's unit."""
        return self.said("systemctl", "show", "-P", "InvocationID", "coadapt")

    def _is_inside(self, process: psutil.Process) -> bool:
        with suppress(OSError):
            own = os.readlink(f"/proc/{self._first}/ns/pid")
            return os.readlink(f"/proc/{process.pid}/ns/pid") == own
        return False

    def keeps_jobs_over_a_restart(self) -> str:
        """Restart the scheduler's unit; the job's process goes on."""
        before = self._pids()
        self.said("systemctl", "restart", "coadapt")
        until(lambda: self.said("coadapt", "list", "--json"), "the scheduler answers")
        if self.saved.exists() or not before or self._pids() != before:
            raise Stranger(f"the job's process was {before}, and is {self._pids()}")
        return "the job's process went on"

    def _pids(self) -> list[int]:
        """Return the processes of the job that stays."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if "saves.py" in " ".join(process.info["cmdline"] or []) and self._is_inside(process):
                found.append(process.pid)
        return sorted(found)

    def reboots(self, figures: dict[str, float]) -> str:
        """Stop all units as a reboot does, switch it off, and on again; the job has saved, and goes on."""
        self.said("systemctl", "start", "--job-mode=replace-irreversibly", "shutdown.target")
        until(lambda: self._states() == {"inactive"}, "all units have stopped", 200)
        if not self.saved.exists():
            raise Stranger("the job was not told to save")
        self.switch_off()
        began_s = time.monotonic()
        self._switch_on()
        until(lambda: set(self.jobs().values()) == {"succeeded"}, "all jobs have succeeded")
        figures["reboot_s"] = time.monotonic() - began_s
        return f"{' and '.join(sorted(self.jobs()))} succeeded"

    def _states(self) -> set[str]:
        units = ("coadapt-head", "coadapt", "coadapt-node")
        return set(self.said("systemctl", "show", "-P", "ActiveState", *units).split())

    def switch_off(self) -> None:
        """End its first process, with which the kernel ends all others."""
        if self._first is not None:
            with suppress(psutil.Error):
                process = psutil.Process(self._first)
                process.kill()
                psutil.wait_procs([process], timeout=20)
        self._first = None
        for name in ("system.slice", "init.scope"):  # the groups that it has made
            for path in Path("/sys/fs/cgroup").glob(f"*/{name}"):
                for inner in sorted(path.rglob("*/"), reverse=True):
                    with suppress(OSError):
                        inner.rmdir()
                with suppress(OSError):
                    path.rmdir()
