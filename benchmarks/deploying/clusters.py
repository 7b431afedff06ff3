"""Clusters that the files of `deploy/` start on loopback, for `deploy.py`: what KubeRay and Slurm would do."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import urllib3
import yaml

from tests.support.manifests import ROOT, SLURM, container, ray_cluster

MARK = "COADAPT_DEPLOY_MARK"
WAIT_S = 240.0
SMALL = "--num-cpus=1 --object-store-memory=83886080 --disable-usage-stats --include-log-monitor=false"
EMULATED = "coadapt.io/gpu-type=t4,coadapt.io/emulated=true"
TRIED = "import time\ntime.sleep(3)\nprint('tried')\n"
# Once it was told to stop and has saved, it goes on to its end.
SAVES = """import pathlib, signal, sys, time
saved = pathlib.Path({saved!r})
if saved.exists():
    print('went on')
    sys.exit()
def save(*told):
    saved.write_text('saved')
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
print('stays', flush=True)
time.sleep(600)
"""


class Stranger(Exception):
    """What was tried did not come out as it should; one sentence."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(found: Callable[[], Any], what: str, limit_s: float = WAIT_S) -> Any:
    """Return what a question is answered with once it is not empty. Raises: Stranger after a limit."""
    deadline_s, why = time.monotonic() + limit_s, ""
    while time.monotonic() < deadline_s:
        try:
            if answer := found():
                return answer
        except Stranger as error:
            why = f": {error}"
        time.sleep(0.5)  # between two questions, up to a limit
    raise Stranger(f"{what} is not so after {limit_s:.0f} s{why}")


class Commands:
    """Processes with a mark in their environment, and the `coadapt` command in it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder, self._mark = folder, secrets.token_hex(8)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "COADAPT_"))}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.env = {**kept, "PATH": path, MARK: self._mark, "RAY_USAGE_STATS_ENABLED": "0", **environment}
        self.env |= {"HOME": str(folder), "COADAPT_HOME": str(folder / "state")}
        self.saved = folder / "saved"
        for name, script in (("tried", TRIED), ("saves", SAVES.format(saved=str(self.saved)))):
            (folder / name).mkdir()
            (folder / name / "job.yaml").write_text(f"name: {name}\nscript: {name}.py\nelastic: false\n")
            (folder / name / f"{name}.py").write_text(script)

    def start(self, command: list[str], log: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a process whose output goes to a file."""
        with (self.folder / log).open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self.env, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self, *command: str) -> str:
        """Return what a program prints. Raises: Stranger where it fails."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False, timeout=WAIT_S
        )
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no word"]
            shown = command[command.index("--") + 1 :] if "--" in command else command
            raise Stranger(f"{' '.join(shown[:2])}: {lines[-1][:160]}")
        return done.stdout.strip()

    def jobs(self) -> dict[str, str]:
        """Return the phase of each job by its id."""
        return {row["id"]: row["phase"] for row in json.loads(self.said("coadapt", "list", "--json"))}

    def submit(self, name: str) -> str:
        """Submit one of the jobs, and return its id."""
        return self.said("coadapt", "submit", str(self.folder / name / "job.yaml")).split()[-1]

    def job_succeeds(self) -> str:
        """Submit a job, and return its id when it has ended well."""
        job_id = self.submit("tried")
        until(lambda: self.jobs().get(job_id) == "succeeded", f"{job_id} has succeeded")
        if "tried" not in self.said("coadapt", "logs", job_id):
            raise Stranger(f"the log of {job_id} is not what it printed")
        return job_id

    def tail(self, log: str) -> str:
        """Return the last line of a file."""
        with suppress(OSError, IndexError):
            return (self.folder / log).read_text(errors="replace").strip().splitlines()[-1][:160]
        return "no word"

    def kill(self) -> None:
        """End every process with the mark, at once."""
        for _ in range(3):
            marked = []
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    if process.pid != os.getpid() and process.environ().get(MARK) == self._mark:
                        marked.append(process)
            for process in marked:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(marked, timeout=10)


class KubeRayHead(Commands):
    """The containers of the head and of a worker, with folders in place of volumes."""

    def __init__(self, folder: Path) -> None:
        self.port, self.api_port, self.secret = free_port(), free_port(), secrets.token_hex(16)
        super().__init__(
            folder,
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=secrets.token_hex(32),
            RAY_ADDRESS=f"127.0.0.1:{self.port}",  # the operator sets these three
        )
        for name in ("state", "checkpoints", "tls", "metrics-token"):
            (folder / name).mkdir()
        (folder / "metrics-token" / "token").write_text(self.secret)
        made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        made += ["-days", "2", "-subj", "/CN=head", "-addext", "subjectAltName=IP:127.0.0.1"]
        made += ["-keyout", str(folder / "tls" / "tls.key"), "-out", str(folder / "tls" / "tls.crt")]
        subprocess.run(made, check=True, capture_output=True)
        self._lives = 0
        self._head: subprocess.Popen[bytes] | None = None

    def _run(self) -> None:
        """Start both containers."""
        self._lives += 1
        spec = ray_cluster()["spec"]
        told = " ".join(f"--{key}={value}" for key, value in spec["headGroupSpec"]["rayStartParams"].items())
        labels = ",".join(f"{key}={value}" for key, value in spec["headGroupSpec"]["labels"].items())
        here = f"--node-ip-address=127.0.0.1 {SMALL} --block"
        temp = f"--temp-dir={self.folder}/h{self._lives}"
        client = f"--ray-client-server-port={free_port()}"
        start = f"ray start --head {told} --labels={labels} --port={self.port} {client} {temp} {here}"
        self._head = self._container("head", start)
        node = f"--num-gpus=1 --labels={EMULATED} --temp-dir={self.folder}/n{self._lives}"

        def join() -> None:
            self._container("t4", f"ray start --address=127.0.0.1:{self.port} {node} {here}")

        until(self._listens, "the head of Ray listens")  # KubeRay's init container waits so
        join()

    def _listens(self) -> bool:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False

    def _container(self, group: str, start: str) -> subprocess.Popen[bytes]:
        found = container(group)
        script = found["args"][0]
        for mount in found["volumeMounts"]:
            name = mount["mountPath"].rpartition("/")[2]
            script = script.replace(f"{mount['mountPath']}/", f"{self.folder}/{name}/")
            script = script.replace(f"{mount['mountPath']} ", f"{self.folder}/{name} ")
        script = script.replace("0.0.0.0", "127.0.0.1").replace("api.port=8420", f"api.port={self.api_port}")
        command = [*found["command"], script]
        return self.start(command, f"{group}.log", KUBERAY_GEN_RAY_START_CMD=start)

    def runs_a_job(self, figures: dict[str, float]) -> str:
        """Start the cluster, and run a job there."""
        began_s = time.monotonic()
        self._run()
        try:
            until(lambda: self.said("coadapt", "list", "--json"), "the scheduler answers")
            figures["kuberay_up_s"] = time.monotonic() - began_s
            return f"{self.job_succeeds()} succeeded"
        except Stranger as error:
            raise Stranger(f"{error}; head: {self.tail('head.log')}; worker: {self.tail('t4.log')}") from None

    def metrics(self, token: str | None = None) -> str:
        """Return the metrics, read with a token, by default that of the file. Raises: Stranger."""
        pool = urllib3.PoolManager(ca_certs=str(self.folder / "tls" / "tls.crt"), retries=False)
        token = self.secret if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            answer = pool.request("GET", f"https://127.0.0.1:{self.api_port}/metrics", headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise Stranger(str(error)) from None
        if answer.status != 200:
            raise Stranger(f"/metrics is answered with {answer.status}")
        return answer.data.decode()

    def metrics_without(self) -> str:
        """Return what is told without a token; nothing, if it should be so."""
        with suppress(Stranger):
            return self.metrics("")
        return ""

    def ends(self, figures: dict[str, float]) -> str:
        """Tell the head's container to end, as Kubernetes does, while a job runs."""
        assert self._head is not None
        job_id = self.submit("saves")
        until(lambda: "stays" in self.said("coadapt", "logs", job_id), f"{job_id} runs")
        began_s = time.monotonic()
        self._head.terminate()
        try:
            self._head.wait(150)
        except subprocess.TimeoutExpired:
            raise Stranger("the container of the head has not ended after 150 s") from None
        figures["kuberay_end_s"] = time.monotonic() - began_s
        if (self.folder / "state" / "cluster.json").exists():
            raise Stranger(f"`coadapt down` did not end well: {self.tail('head.log')}")
        if not self.saved.exists():
            raise Stranger(f"{job_id} was not told to save")
        return f"{job_id} has saved"

    def comes_back(self, figures: dict[str, float]) -> str:
        """Lose the machine of the head, start another one with the same volume, and look for the jobs."""
        self.kill()
        began_s = time.monotonic()
        self._run()
        found = until(self.jobs, "the scheduler knows jobs")
        figures["kuberay_back_s"] = time.monotonic() - began_s
        until(lambda: set(self.jobs().values()) == {"succeeded"}, f"all of {', '.join(found)} have succeeded")
        return f"{' and '.join(sorted(found))} succeeded"


def watched(head: KubeRayHead, folder: Path) -> str:
    """Let Prometheus scrape with our files; return how many alerts it has loaded. Raises: Stranger."""
    source, target = ROOT / "deploy" / "prometheus", folder / "prometheus"
    target.mkdir()
    shutil.copy(source / "alerts.yml", target)
    config = yaml.safe_load((source / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (scrape,) = config["scrape_configs"]
    scrape["authorization"]["credentials_file"] = str(folder / "metrics-token" / "token")
    scrape["tls_config"]["ca_file"] = str(folder / "tls" / "tls.crt")
    scrape["static_configs"] = [{"targets": [f"127.0.0.1:{head.api_port}"]}]
    (target / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = ["prometheus", f"--config.file={target}/prometheus.yml", f"--storage.tsdb.path={target}/data"]
    running = head.start([*command, f"--web.listen-address=127.0.0.1:{port}"], "prometheus.log")

    def asked(path: str) -> Any:
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{port}/api/v1/{path}", retries=False)
            return json.loads(answer.data)["data"]
        except (urllib3.exceptions.HTTPError, ValueError, KeyError):
            return None

    try:
        query = "query?query=coadapt_scheduler_up%20==%201"
        until(lambda: (asked(query) or {}).get("result"), "Prometheus sees the scheduler", 60)
        rules = [rule for group in asked("rules")["groups"] for rule in group["rules"]]
        ill = [rule["name"] for rule in rules if rule["health"] == "err"]
        if ill:
            raise Stranger(f"Prometheus cannot evaluate {', '.join(ill)}")
        critical = [r["name"] for r in rules if r["state"] == "firing" and r["labels"]["severity"] == "critical"]
        if critical:
            raise Stranger(f"{', '.join(critical)} fire on a cluster that is well")
        return f"{len(rules)} alerts loaded, none critical fires"
    finally:
        running.terminate()
        running.wait(20)


class SlurmCluster(Commands):
    """A Slurm of one node on loopback, made for one `sbatch`. It runs as this user."""

    PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "scancel")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SLURM_CONF=str(folder / "slurm.conf"))
        self.env |= {"COADAPT_PORT": str(free_port()), "COADAPT_HEAD": "127.0.0.1", "COADAPT_GPU_TYPE": "t4"}
        self.env |= {"COADAPT_NODE_LABELS": EMULATED, "COADAPT_GPUS": "1"}
        self._munge = folder / "munge"
        self._munge.mkdir()
        (self._munge / "key-file").write_bytes(secrets.token_bytes(128))
        (self._munge / "key-file").chmod(0o600)
        for name in ("ctld", "slurmd"):
            (folder / name).mkdir()
        user = pwd.getpwuid(os.geteuid()).pw_name
        self._node = socket.gethostname().partition(".")[0]
        (folder / "slurm.conf").write_text(
            f"ClusterName=tried\nSlurmctldHost={self._node}(127.0.0.1)\nSlurmUser={user}\nSlurmdUser={user}\n"
            f"AuthType=auth/munge\nAuthInfo=socket={self._munge}/socket\nCredType=cred/munge\n"
            f"SlurmctldPort={free_port()}\nSlurmdPort={free_port()}\nProctrackType=proctrack/linuxproc\n"
            f"TaskPlugin=task/none\nMpiDefault=none\nSelectType=select/cons_tres\nReturnToService=2\n"
            f"StateSaveLocation={folder}/ctld\nSlurmdSpoolDir={folder}/slurmd\nSwitchType=switch/none\n"
            f"SlurmctldPidFile={folder}/ctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n"
            f"JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n"
            f"NodeName={self._node} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN\n"
            f"PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        )

    def runs_a_job(self, figures: dict[str, float]) -> str:
        """Start Slurm, send the script, run a job on its cluster, and end it as Slurm does."""
        files = [
            f"--{name}={self._munge}/{name}"
            for name in ("socket", "key-file", "pid-file", "log-file", "seed-file")
        ]
        self.start(["munged", "--foreground", "--force", *files], "munged.log")
        until((self._munge / "socket").exists, "munge listens", 20)
        self.start(["slurmctld", "-D"], "slurmctld.log")
        self.start(["slurmd", "-D", "-N", self._node], "slurmd.log")
        until(lambda: "idle" in self.said("sinfo", "-h", "-o", "%t"), "the node of Slurm is idle", 60)
        began_s = time.monotonic()
        options = ["--parsable", "--nodes=1", "--cpus-per-task=1", f"--output={self.folder}/sbatch.log"]
        number = self.said("sbatch", *options, str(SLURM))
        try:
            until(lambda: "ready:" in self._log(), "the script says that it is ready")
            figures["slurm_up_s"] = time.monotonic() - began_s
            job_id = self.job_succeeds()
        except Stranger as error:
            raise Stranger(f"{error}; {self.tail('sbatch.log')}; {self.tail('slurmctld.log')}") from None
        self.said("scancel", "--batch", "--signal=TERM", number)
        until(lambda: not self.said("squeue", "-h", "-j", number), "the allocation is given back", 150)
        if (self.folder / "state" / "cluster.json").exists():
            raise Stranger(f"`coadapt down` did not end well: {self.tail('sbatch.log')}")
        return f"{job_id} succeeded"

    def _log(self) -> str:
        path = self.folder / "sbatch.log"
        return path.read_text(errors="replace") if path.exists() else ""
