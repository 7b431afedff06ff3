"""What the service costs somebody who tries it on a laptop, against the version before it was made for months.

    python -m benchmarks.laptop [--before COMMIT] [--rounds 3] [--no-demo]

Both versions run here by turns, each from its own checkout, with the commands of the README: `coadapt up`, two
jobs, `coadapt submit`, `coadapt list`, `coadapt down`, and `make demo` by its module.
* up_extra_s, memory_extra_mib: by how much longer it takes to start, and how much more memory (PSS) all its
  processes hold with two jobs that train. list_time_ratio, submit_time_ratio, demo_time_ratio: over those before.
* questions_asked: how often a command waited for an answer; each has a closed standard input.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from .arguments import at_least
from .harness import finish, table

ROOT = Path(__file__).resolve().parents[1]
FIRST = "scheduler/store/schema.py"  # came with the service that runs for months
NODES = "1x a100:1, 1x t4:1"
CALLS = 5
PATIENCE_S = 240.0
JOB = """
name: laptop
script: train.py
resources: {max_gpus: 1}
training: {report_interval_s: 2}
"""


@dataclass
class Seen:
    """What one version took, in each of its turns."""

    up_s: list[float] = field(default_factory=list)
    down_s: list[float] = field(default_factory=list)
    list_s: list[float] = field(default_factory=list)
    submit_s: list[float] = field(default_factory=list)
    memory_mib: list[float] = field(default_factory=list)
    demo_s: list[float] = field(default_factory=list)
    demo_exits: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)  # phenomena of the demo
    questions: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="a commit; by default the last one without the present store")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--no-demo", action="store_true")
    args = parser.parse_args()
    with _checkout(args.before or _before()) as before:
        versions = {"before": (before, Seen()), "now": (ROOT, Seen())}
        for _ in range(args.rounds):
            for where, seen in versions.values():
                _by_hand(where, seen)
        if not args.no_demo:
            for where, seen in versions.values():
                _demo(where, seen)
    old, new = versions["before"][1], versions["now"][1]
    rows = [
        (name, _median(getattr(old, name)), _median(getattr(new, name)))
        for name in ("up_s", "down_s", "submit_s", "list_s", "memory_mib", "demo_s")
        if getattr(new, name)
    ]
    table("By turns, medians", ["", "before", "now"], [[*row] for row in rows])
    figures: dict[str, float | int | str | None] = {
        "up_extra_s": round(_median(new.up_s) - _median(old.up_s), 2),
        "memory_extra_mib": round(_median(new.memory_mib) - _median(old.memory_mib), 1),
        "list_time_ratio": round(_median(new.list_s) / _median(old.list_s), 3),
        "submit_time_ratio": round(_median(new.submit_s) / _median(old.submit_s), 3),
        "questions_asked": new.questions,
    }
    if new.demo_s:
        figures |= {
            "demo_time_ratio": round(_median(new.demo_s) / _median(old.demo_s), 3),
            "demo_exit_before": old.demo_exits[0],
            "demo_exit": new.demo_exits[0],
            "demo_seen_before": old.seen[0],
            "demo_seen": new.seen[0],
        }
    finish("laptop", figures)


def _before() -> str:
    added = _git("log", "--diff-filter=A", "--format=%H", "--", FIRST).split()
    if not added:
        raise SystemExit(f"--before: no commit of this checkout has added {FIRST}; name a commit")
    return f"{added[-1]}^"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """Yield a checkout of a commit, importable as the package."""
    with tempfile.TemporaryDirectory(prefix="coadapt-before-", ignore_cleanup_errors=True) as folder:
        where = Path(folder) / "before"
        _git("worktree", "add", "--quiet", "--detach", str(where), commit)
        try:
            yield where
        finally:
            _git("worktree", "remove", "--force", str(where))


def _environment(where: Path, home: Path) -> Mapping[str, str]:
    """Return variables with which the package of a checkout is imported, in a home of its own."""
    named = where / ".types"
    named.mkdir(exist_ok=True)
    with suppress(FileExistsError):
        (named / "coadapt").symlink_to("..")
    return {**os.environ, "PYTHONPATH": f"{named}:{where}", "COADAPT_HOME": str(home), "NO_COLOR": "1"}


def _by_hand(where: Path, seen: Seen) -> None:
    """Type the commands of the README once."""
    with tempfile.TemporaryDirectory(prefix="coadapt-laptop-", ignore_cleanup_errors=True) as folder:
        home, job = Path(folder) / "home", Path(folder) / "job"
        job.mkdir()
        shutil.copy(ROOT / "benchmarks" / "scripts" / "counted_steps.py", job / "train.py")
        (job / "job.yaml").write_text(JOB + f"args: [{folder}/steps]\n")
        environment = _environment(where, home)
        seen.up_s.append(_typed(seen, environment, where, "up", "--emulate", NODES, "--policy", "fifo"))
        try:
            for _ in range(2):
                seen.submit_s.append(_typed(seen, environment, where, "submit", str(job / "job.yaml")))
            _until_running(environment, where, 2)
            seen.list_s += [_typed(seen, environment, where, "list") for _ in range(CALLS)]
            seen.memory_mib.append(_memory_mib(str(home)))
        finally:
            seen.down_s.append(_typed(seen, environment, where, "down"))


def _typed(seen: Seen, environment: Mapping[str, str], where: Path, *words: str) -> float:
    """Run a command; return how long it took. A command that asks something finds nobody, and is counted."""
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "coadapt.cli.main", *words],
        env=dict(environment),
        cwd=where,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    seen.questions += "Aborted" in done.stderr or "[y/N]" in done.stdout
    if done.returncode:
        raise SystemExit(f"coadapt {' '.join(words)} of {where} failed: {done.stderr[-500:]}")
    return time.monotonic() - began_s


def _until_running(environment: Mapping[str, str], where: Path, jobs: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        done = subprocess.run(
            [sys.executable, "-m", "coadapt.cli.main", "list"],
            env=dict(environment),
            cwd=where,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.stdout.count("running") >= jobs:
            return
        time.sleep(0.5)  # between two looks
    raise SystemExit(f"{jobs} jobs of {where} do not run in {PATIENCE_S:.0f} s")


def _memory_mib(home: str) -> float:
    """Return the PSS of all processes that know a home: Ray's, the service's and those of jobs."""
    total = 0.0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(home in value for value in process.environ().values()):
                total += process.memory_full_info().pss / 2**20
    return total


def _demo(where: Path, seen: Seen) -> None:
    with tempfile.TemporaryDirectory(prefix="coadapt-demo-", ignore_cleanup_errors=True) as folder:
        began_s = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "examples.demo"],
            env=dict(_environment(where, Path(folder) / "home")),
            cwd=where,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        seen.demo_s.append(time.monotonic() - began_s)
        seen.demo_exits.append(done.returncode)
        seen.seen.append(sum(line.startswith("seen ") for line in done.stdout.splitlines()))


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


if __name__ == "__main__":
    main()
