"""`make demo` as a user runs it: how many of its phenomena are seen, and how long it takes.

`python -m benchmarks.demo [--busy N,N...] [--runs K]` runs it K times beside each number of busy processes.
Figures of those beside any end in `_busy_N`; `promises_kept` is the least of the runs, `wall_s` their most.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .arguments import at_least, numbers
from .harness import finish, table

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Run:
    """One run of the demo: its exit status, and what it has written of itself."""

    busy: int
    status: int
    wall_s: float
    told: dict[str, Any]

    @property
    def kept(self) -> int:
        """Return how many promises were kept; no run that failed keeps all of them."""
        seen = sum(text is not None for text in self.promises.values())
        return seen if self.status == 0 else min(seen, max(len(self.promises) - 1, 0))

    @property
    def promises(self) -> dict[str, str | None]:
        return self.told.get("promises", {})


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run so many processes that only compute."""
    spinning = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def run(beside: int) -> Run:
    """Run the command itself and pass its output on."""
    told = ROOT / "out" / "demo.json"
    told.unlink(missing_ok=True)
    began_s = time.monotonic()
    with busy(beside):
        done = subprocess.run([sys.executable, "-m", "examples.demo"], cwd=ROOT, check=False)
    wall_s = time.monotonic() - began_s
    return Run(beside, done.returncode, wall_s, json.loads(told.read_text()) if told.exists() else {})


def figures(runs: Sequence[Run]) -> dict[str, float | int]:
    """Return the figures of runs beside one number of busy processes."""
    jobs = [job for run in runs for job in run.told.get("jobs", [])]
    jct_s = [job["finished_s"] - job["submitted_s"] for job in jobs if job["finished_s"] is not None]
    found = {
        "runs": len(runs),
        "exit_0": sum(run.status == 0 for run in runs),
        "promises_kept": min(run.kept for run in runs),
        "promises": max(len(run.promises) for run in runs),
        "wall_s": round(max(run.wall_s for run in runs), 1),
        "jobs": len(jobs),
        "jobs_at_target": sum(len(run.told.get("at_target", [])) for run in runs),
        "mean_jct_s": round(sum(jct_s) / max(len(jct_s), 1), 1),
        "pauses": sum(job["restarts"] for job in jobs),
        "cores": min(run.told.get("cores", 0.0) for run in runs),
    }
    beside = runs[0].busy
    return {f"{name}_busy_{beside}" if beside else name: value for name, value in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=numbers(at_least(0)), default=[0], metavar="N[,N...]")
    parser.add_argument("--runs", type=at_least(1), default=1, metavar="K")
    options = parser.parse_args()
    told: dict[str, float | int] = {}
    rows: list[list[object]] = []
    for beside in options.busy:
        runs = [run(beside) for _ in range(options.runs)]
        told |= figures(runs)
        rows += [[beside, r.status, f"{r.kept} of {len(r.promises)}", f"{r.wall_s:.0f}"] for r in runs]
    table("make demo", ["busy processes", "exit status", "promises kept", "wall, s"], rows)
    finish("demo", told)
    return 0 if all(row[1] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
