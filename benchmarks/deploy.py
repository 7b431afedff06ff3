"""Issue figure 10: what other systems say of the files in `deploy/`, and clusters that they start on this machine.

Programs of Prometheus, systemd and Slurm are asked where they are there. What is not there is told.
The commands of KubeRay's containers start a cluster on loopback that runs a job. Its metrics are scraped by a real
Prometheus with the files of `deploy/prometheus`. Then the head dies, and another one starts on the same state.
The `sbatch` script runs a job under a one-node Slurm that is made for it. The units run under a systemd in
namespaces of its own, over the end of Ray and over a reboot. GPUs are emulated. Nothing here runs on Kubernetes or
in a cloud.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.manifests import KUBERAY, ROOT, SLURM, SYSTEMD, wrong_core_kinds, wrong_ray_cluster

from .deploying.clusters import KubeRayHead, SlurmCluster, Stranger, watched
from .deploying.machine import Machine, why_not
from .harness import DATA, finish, table

PROMETHEUS = ROOT / "deploy" / "prometheus"
SCRIPTS = (SLURM, ROOT / "deploy" / "cloud" / "state_volume.sh")


@dataclass
class Checks:
    """What was tried: by name whether it held, or why it could not be tried here."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def note(self, name: str, held: bool, told: str = "") -> None:
        """Keep the outcome of one."""
        self.rows.append((name, "yes" if held else "NO", told))

    def missing(self, name: str, why: str) -> None:
        """Keep that one could not be tried."""
        self.rows.append((name, "not run", why))

    def tried(self, name: str, work: Callable[[], str]) -> None:
        """Do some work; it fails with a `Stranger` that says why."""
        print(f"… {name}", flush=True)
        try:
            self.note(name, True, work())
        except Stranger as error:
            self.note(name, False, str(error))

    def program(self, name: str, command: Sequence[str | Path], package: str, text: str | None = None) -> None:
        """Run a program, which says by its status whether all is well."""
        words = [str(word) for word in command]
        if shutil.which(words[0]) is None:
            self.missing(name, f"{words[0]} is not there (package {package})")
            return
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip().splitlines()
        self.note(name, done.returncode == 0, "" if done.returncode == 0 else " ".join(said[-3:])[:200])

    def count(self, word: str) -> int:
        """Return how many came out so."""
        return sum(held == word for _, held, _ in self.rows)


def files(checks: Checks) -> None:
    """Ask what reads the files without running them."""
    rules, rule_tests = PROMETHEUS / "alerts.yml", PROMETHEUS / "alerts_test.yml"
    checks.program("promtool check rules", ["promtool", "check", "rules", rules], "prometheus")
    checks.program("promtool test rules", ["promtool", "test", "rules", rule_tests], "prometheus")
    config = ["promtool", "check", "config", "--syntax-only", PROMETHEUS / "prometheus.yml"]
    checks.program("promtool check config", config, "prometheus")
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(SYSTEMD.glob("*.service")):
            text = path.read_text().replace("/opt/coadapt/venv", sys.prefix)
            Path(folder, path.name).write_text(text)
        for path in sorted(Path(folder).glob("*.service")):
            checks.program(f"systemd-analyze verify {path.name}", ["systemd-analyze", "verify", path], "systemd")
    for path in SCRIPTS:
        checks.program(f"bash -n {path.name}", ["bash", "-n", path], "bash")
        checks.program(f"shellcheck {path.name}", ["shellcheck", path], "shellcheck")
    wrong = wrong_core_kinds()
    checks.note(f"core kinds of {KUBERAY.name}", not wrong, "; ".join(wrong)[:200])
    if (definitions := DATA / "kuberay").is_dir():
        wrong = wrong_ray_cluster(definitions)
        checks.note(f"RayCluster of {KUBERAY.name}", not wrong, "; ".join(wrong)[:200])
    else:
        checks.missing(f"RayCluster of {KUBERAY.name}", f"{definitions} is not there (COADAPT_DATA)")


def kuberay(checks: Checks, folder: Path) -> dict[str, float]:
    """Run the commands of KubeRay's containers: a job, a scrape, the end of a head and the next one."""
    figures: dict[str, float] = {}
    head = KubeRayHead(folder)
    try:
        checks.tried("KubeRay's commands start a cluster that runs a job", lambda: head.runs_a_job(figures))
        text = ""
        with suppress(Stranger):
            text = head.metrics()
        checks.note("metrics are read with the token of the file alone", bool(text) and not head.metrics_without())
        checks.program("promtool check metrics", ["promtool", "check", "metrics"], "prometheus", text)
        if shutil.which("prometheus") is None:
            checks.missing("Prometheus scrapes with deploy/prometheus", "prometheus is not there")
        else:
            checks.tried("Prometheus scrapes with deploy/prometheus", lambda: watched(head, folder))
        checks.tried("a pod that is told to end lets jobs save", lambda: head.ends(figures))
        checks.tried("jobs go on with another head on the same volume", lambda: head.comes_back(figures))
    finally:
        head.kill()
    return figures


def systemd(checks: Checks, folder: Path) -> dict[str, float]:
    """Boot the units on a machine made for it."""
    figures: dict[str, float] = {}
    if why := why_not():
        checks.missing("the units start a cluster, and return", why)
        return figures
    machine = Machine(folder)
    try:
        checks.tried("the units start a cluster that runs a job", lambda: machine.boots(figures))
        checks.tried("they return when Ray has ended", lambda: machine.survives_the_end_of_ray(figures))
        checks.tried("jobs train on while the scheduler's unit restarts", machine.keeps_jobs_over_a_restart)
        checks.tried("jobs save before a reboot, and go on after it", lambda: machine.reboots(figures))
    finally:
        machine.switch_off()
    return figures


def slurm(checks: Checks, folder: Path) -> dict[str, float]:
    """Run the `sbatch` script under a Slurm of one node."""
    figures: dict[str, float] = {}
    name = "the sbatch script starts a cluster that runs a job"
    absent = [one for one in SlurmCluster.PROGRAMS if shutil.which(one) is None]
    if absent:
        checks.missing(name, f"{', '.join(absent)} not there (packages slurmctld, slurmd, slurm-client, munge)")
        return figures
    cluster = SlurmCluster(folder)
    try:
        checks.tried(name, lambda: cluster.runs_a_job(figures))
    finally:
        cluster.kill()
    return figures


def main() -> None:
    """Print what holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files-only", action="store_true", help="start no cluster")
    arguments = parser.parse_args()
    checks, figures, began_s = Checks(), dict[str, float](), time.monotonic()
    files(checks)
    for what in () if arguments.files_only else (kuberay, systemd, slurm):
        folder = Path(tempfile.mkdtemp(prefix="coadapt-deploy-"))
        try:
            figures |= what(checks, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if arguments.files_only:
        checks.missing("clusters on this machine", "--files-only")
    for what_else in ("on Kubernetes", "in a cloud"):
        checks.missing(f"the same {what_else}", "there is none on this machine")
    table("What other systems say", ["check", "holds", "told"], checks.rows)
    counts = {"held": checks.count("yes"), "failed": checks.count("NO"), "not_run": checks.count("not run")}
    seconds = {name: round(value, 1) for name, value in figures.items()}
    finish("deploy", {**counts, **seconds}, f"{time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
