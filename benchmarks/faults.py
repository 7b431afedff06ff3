"""What goes wrong in months of service, line by line, and how soon a store that fails is told and heals.

    python -m benchmarks.faults [--hold 120]

Each line of what an operator met before is held by tests, which run here. Then a real store under a real loop
is hurt: its disk is full, another program holds its lock, it is read-only, or each write takes 2 s. The loop ticks
on, jobs are submitted again and again, and what was confirmed must be there in the end.
Then the machine's clock is set an hour back and forth under the loop, Ray's control plane is stopped for 30 s
under training jobs, and pages of a store are garbled one after the other.
* degraded_told_s: until it is told that nothing can be stored. healed_s: from the cause's end to the next change.
* jobs_lost, jobs_run_twice: of those that were confirmed.
* clock/longest_wait_s: between two confirmed jobs while the clock was set. control_plane/healed_s: from its return
  until a job that was submitted then trained. garbled/named, garbled/restored: of so many pages.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coadapt.core.errors import StateError
from coadapt.core.job import JobSpec
from coadapt.scheduler.runtime import clock as clock_module
from coadapt.scheduler.runtime.clock import SystemClock
from coadapt.scheduler.runtime.degraded import StoreWatch
from coadapt.scheduler.runtime.loop import Loop
from coadapt.scheduler.store.store import Store
from sqlalchemy import event

from .arguments import at_least
from .harness import finish, table
from .months import control_plane, garbled_store

STORE = "tests/scheduler/store"
# What an operator met, and the tests that hold it now.
LINES: dict[str, tuple[str, ...]] = {
    "1 a full disk or a held lock ends rounds": ("tests/scheduler/runtime/test_loop.py",),
    "2 one job or one executor stops all": (
        "tests/scheduler/test_quarantine.py",
        "tests/scheduler/runtime/test_lanes.py",
    ),
    "3 no upgrade, no rollback, settings need a stop": (
        f"{STORE}/test_migrations.py",
        "tests/scheduler/runtime/test_live_settings.py",
    ),
    "4 a clock that is set": ("tests/scheduler/runtime/test_clock.py",),
    "5 every job that ever ran is visited": (f"{STORE}/test_store.py", "tests/api/test_bad_input.py"),
    "6 nothing is pruned, backups are empty": (
        f"{STORE}/test_retention.py",
        f"{STORE}/test_row_pruning.py",
        f"{STORE}/test_restoring.py",
        "tests/scheduler/care/test_pruning.py",
        "tests/scheduler/observers/test_log_retention.py",
    ),
    "7 executors keep memory, losses add up": (
        "tests/scheduler/changes/test_rest.py",
        "tests/scheduler/executors/test_actors.py",
    ),
    "8 two services on one store": (f"{STORE}/test_opening.py",),
    "9 a script owns the cluster": ("tests/executor/sandbox", "tests/scheduler/care/test_private_folders.py"),
    "10 packages and specs are believed": (
        "tests/scheduler/changes/test_submissions.py",
        "tests/api/test_bad_input.py",
    ),
    "11 variables of GPUs, metrics without bound": ("tests/client/test_bad_jobs.py", f"{STORE}/test_metrics.py"),
}
EVERY_S = 0.05  # between two submits
PATIENCE_S = 30.0
HOUR_S, CLOCK_S = 3600.0, 5.0
STOPPED_S = 30.0  # of Ray's control plane; Ray itself gives up after 60
PAGES = 20


def lines_mended() -> list[tuple[str, bool]]:
    """Run the tests of each line, and return whether they hold."""
    found = []
    for line, paths in LINES.items():
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
            "-m",
            "not live",
            *paths,
        ]
        found.append((line, subprocess.run(words, capture_output=True, check=False).returncode == 0))
    return found


@dataclass
class Hurt:
    """A store under a loop, and jobs that are submitted all the time."""

    store: Store
    watch: StoreWatch
    path: Path
    confirmed: list[str]
    last_s: float = 0.0  # when a job was confirmed last, monotonic

    def until(self, holds: Callable[[], bool]) -> float | None:
        """Return how long it took until something held; None: it did not."""
        began_s = time.monotonic()
        while not holds():
            if time.monotonic() - began_s > PATIENCE_S:
                return None
            time.sleep(0.01)  # between two looks, up to a limit
        return time.monotonic() - began_s


@contextmanager
def hurt() -> Iterator[Hurt]:
    with tempfile.TemporaryDirectory() as folder:
        clock, woken, stop = SystemClock(), threading.Event(), threading.Event()
        watch, path = StoreWatch(clock), Path(folder) / "jobs.sqlite"
        store = Store(path, watch.wrote)
        subject = Hurt(store, watch, path, [])

        def tick() -> None:
            store.write_fact("ticked_s", str(clock.steady_s()))

        def submit() -> None:
            number = 0
            while not stop.wait(EVERY_S):
                number += 1
                try:
                    with watch.storing():
                        spec = JobSpec(name="job", script="train.py", env={"WORDS": "x" * 2000})
                        job, _ = store.submit(spec, clock.steady_s(), idempotency_key=f"k{number}")
                except StateError:
                    continue
                subject.confirmed.append(job.id)
                subject.last_s = time.monotonic()

        loop = Loop(store, watch, clock, [], tick, lambda: 0.2, woken)
        loop.start()
        submitting = threading.Thread(target=submit, daemon=True)
        submitting.start()
        try:
            subject.until(lambda: len(subject.confirmed) >= 3)
            yield subject
        finally:
            stop.set()
            submitting.join()
            loop.stop()
            store.close()


def full(subject: Hurt) -> Callable[[], None]:
    def limit(pages: int) -> None:
        subject.store.database.write(
            lambda connection: connection.exec_driver_sql(f"pragma max_page_count={pages}")
        )

    limit(1)
    return lambda: limit(1_000_000_000)


def locked(subject: Hurt) -> Callable[[], None]:
    other = sqlite3.connect(subject.path, isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    return other.close


def read_only(subject: Hurt) -> Callable[[], None]:
    def only(on: int) -> None:
        database = subject.store.database
        with database._lock:  # outside of any transaction, as the file system does it
            database._writer.exec_driver_sql(f"pragma query_only={on}")

    only(1)
    return lambda: only(0)


def slow(subject: Hurt) -> Callable[[], None]:
    mended = threading.Event()

    def wait(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("begin immediate") and not mended.is_set():
            time.sleep(2.0)  # what is tried is a disk that is slow

    event.listen(subject.store.database.engine, "before_cursor_execute", wait)
    return mended.set


def longest_wait_s() -> float:
    """Set the clock an hour back, then forth, and return the longest time between two jobs that were confirmed."""
    real, longest_s = time.time, 0.0
    with hurt() as subject:
        try:
            for ahead_s in (-HOUR_S, HOUR_S, 0.0):
                # As a person sets it. The type checker takes a module for constant.
                clock_module.time.time = partial(_ahead, real, ahead_s)  # type: ignore[assignment]
                end_s = time.monotonic() + CLOCK_S
                while time.monotonic() < end_s:
                    longest_s = max(longest_s, time.monotonic() - subject.last_s)
                    time.sleep(0.01)  # the clock stays so for a while
        finally:
            clock_module.time.time = real  # type: ignore[assignment]  # as above
    return longest_s


def _ahead(clock: Callable[[], float], seconds: float) -> float:
    return clock() + seconds


@dataclass(frozen=True)
class Outcome:
    """How a fault went."""

    told_s: float | None
    healed_s: float | None
    lost: int
    twice: int


def tried(fault: Callable[[Hurt], Callable[[], None]], hold_s: float) -> Outcome:
    """Hurt a store for a while, mend it, and look at what was confirmed."""
    with hurt() as subject:
        mend = fault(subject)
        told_s = subject.until(lambda: bool(subject.watch.notes()))
        time.sleep(hold_s)  # the fault lasts so long
        mend()
        mended_s = time.monotonic()
        healed_s = subject.until(lambda: subject.last_s > mended_s and subject.watch.degraded is None)
        confirmed = list(subject.confirmed)
        stored = Counter(job.id for job in subject.store.every())
    return Outcome(
        told_s, healed_s, sum(id not in stored for id in confirmed), sum(many > 1 for many in stored.values())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hold", type=at_least(1), default=120, help="seconds that the lock is held")
    parser.add_argument("--no-lines", action="store_true", help="leave out the tests of each line")
    parser.add_argument("--no-ray", action="store_true", help="leave out what needs a Ray cluster")
    options = parser.parse_args()
    figures: dict[str, float] = {}
    if not options.no_lines:
        lines = lines_mended()
        table("What an operator met", ["line", "holds"], [(line, "yes" if held else "NO") for line, held in lines])
        figures["lines_mended"] = float(sum(held for _, held in lines))
    faults = {"full": (full, 3.0), "locked": (locked, float(options.hold)), "read_only": (read_only, 3.0)}
    faults["slow"] = (slow, 10.0)
    outcomes = {name: tried(fault, hold_s) for name, (fault, hold_s) in faults.items()}
    shown = {name: (_s(one.told_s), _s(one.healed_s), one.lost, one.twice) for name, one in outcomes.items()}
    columns = ["store", "told after, s", "healed after, s", "jobs lost", "jobs run twice"]
    table("A store that fails", columns, [(name, *cells) for name, cells in shown.items()])
    for name, one in outcomes.items():
        figures |= {f"{name}/degraded_told_s": _figure(one.told_s), f"{name}/healed_s": _figure(one.healed_s)}
    figures["jobs_lost"] = float(sum(one.lost for one in outcomes.values()))
    figures["jobs_run_twice"] = float(sum(one.twice for one in outcomes.values()))
    figures["clock/longest_wait_s"] = round(longest_wait_s(), 3)
    with tempfile.TemporaryDirectory() as folder:
        pages = garbled_store.garbled(Path(folder), PAGES)
    figures |= {"garbled/pages": pages.pages, "garbled/named": pages.named, "garbled/restored": pages.restored}
    rows = [
        ("the clock is set by an hour, back and forth", f"longest wait {figures['clock/longest_wait_s']} s"),
        ("a garbled page", f"named {pages.named} of {pages.pages} times, restored {pages.restored}"),
    ]
    if not options.no_ray:
        ray = control_plane.stopped(STOPPED_S)
        rows.append(
            (
                f"Ray's control plane stands still for {STOPPED_S:.0f} s",
                f"{ray.rounds_meanwhile} rounds meanwhile, healed after {ray.healed_s:.1f} s, {ray.steps_lost}"
                f" steps lost, {ray.processes_restarted} processes restarted",
            )
        )
        figures |= {
            "control_plane/rounds_meanwhile": ray.rounds_meanwhile,
            "control_plane/healed_s": round(ray.healed_s, 2),
            "control_plane/steps_lost": ray.steps_lost,
            "control_plane/processes_restarted": ray.processes_restarted,
        }
        figures["jobs_lost"] += ray.jobs_lost
    table("What else goes wrong", ["fault", "outcome"], rows)
    finish("faults", figures)


def _s(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.2f}"


def _figure(seconds: float | None) -> float:
    return PATIENCE_S if seconds is None else round(seconds, 3)


if __name__ == "__main__":
    main()
