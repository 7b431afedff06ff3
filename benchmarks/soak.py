"""Whether memory and disk of the service stay flat while jobs come and go and what is old is removed.

    python -m benchmarks.soak [--minutes 60] [--submits-per-minute 20]

A real Ray cluster with the real scheduler and API; executors are stubs, and each job ends after half a minute. A
client lists and describes jobs all the while. From the tenth minute on the service is asked each minute to remove
what retention does not keep, which is little here.
* memory_slope, disk_slope: of scheduler and API together (USS), and of the state folder. It is the slope of a line
  through what was measured after the warm-up, an hour, over its mean: 0.02 is two per cent an hour.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from .arguments import at_least
from .harness import finish, table
from .months.house import House, house, own_folder, settings_in, uss_mib
from .months.many_jobs import SPEC

LASTS_S, PROFILE_S = 30.0, 1.0
NODES = "2x t4:8"
LEAST = {"most_ended_jobs": 100, "most_events": 1500, "most_intervals": 300, "most_profiles": 20}
LEAST |= {"most_audit": 200, "most_rounds": 50}


@dataclass(frozen=True)
class Look:
    """What was measured at one moment."""

    minute: float
    service_mib: float
    api_mib: float
    disk_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=at_least(1), default=60)
    parser.add_argument("--warm-up", type=at_least(0), default=10, help="minutes that do not count")
    parser.add_argument("--submits-per-minute", type=at_least(1), default=20)
    args = parser.parse_args()
    with own_folder() as folder:
        settings = settings_in(folder / "state", retention=LEAST, policy="fifo", round_interval_s=10.0)
        with house(settings, NODES, LASTS_S, PROFILE_S) as subject:
            looks, submitted = soaked(subject, folder, args.minutes, args.warm_up, args.submits_per_minute)
            ended = len(subject.client.jobs())
    counted = [look for look in looks if look.minute >= args.warm_up]
    table(
        "What the service holds",
        ["minute", "scheduler, MiB", "API, MiB", "state folder, MiB"],
        [
            [f"{one.minute:.0f}", one.service_mib, one.api_mib, one.disk_mib]
            for one in looks[:: max(len(looks) // 12, 1)]
        ],
    )
    minutes = [one.minute for one in counted]
    finish(
        "soak",
        {
            "minutes": args.minutes,
            "submitted": submitted,
            "jobs_kept": ended,
            "memory_slope": slope(minutes, [one.service_mib + one.api_mib for one in counted]),
            "service_slope": slope(minutes, [one.service_mib for one in counted]),
            "api_slope": slope(minutes, [one.api_mib for one in counted]),
            "disk_slope": slope(minutes, [one.disk_mib for one in counted]),
            "service_mib": round(counted[-1].service_mib, 1),
            "api_mib": round(counted[-1].api_mib, 1),
            "disk_mib": round(counted[-1].disk_mib, 1),
        },
    )


def soaked(
    subject: House, folder: Path, minutes: float, warm_up: float, per_minute: float
) -> tuple[list[Look], int]:
    """Submit, read and look for some minutes; return what was seen and how many jobs were submitted."""
    package, stop = subject.put_package(folder / "script"), threading.Event()
    reader = threading.Thread(target=_read, args=(subject, stop), daemon=True)
    reader.start()
    looks, submitted, began_s = [_look(subject, 0.0)], 0, time.monotonic()
    try:
        while (minute := (time.monotonic() - began_s) / 60) < minutes:
            if submitted <= minute * per_minute:
                subject.submit(subject.client, SPEC, package)
                submitted += 1
            if minute >= len(looks):
                if minute >= warm_up:
                    subject.client.prune()
                looks.append(_look(subject, minute))
            time.sleep(0.2)  # the pace of the soak
    finally:
        stop.set()
        reader.join()
    looks.append(_look(subject, minutes))
    return looks, submitted


def _read(subject: House, stop: threading.Event) -> None:
    """Ask what people ask, again and again."""
    while not stop.wait(1.0):
        with suppress(Exception):  # a job may be gone by then
            rows = subject.client.list()
            subject.client.describe(rows[-1]["id"])
            subject.client.cluster()


def _look(subject: House, minute: float) -> Look:
    service = psutil.Process(subject.ask("times")["pid"])
    state = Path(subject.settings.state_dir)
    disk = sum(path.stat().st_size for path in state.rglob("*") if path.is_file() and not path.is_symlink())
    return Look(minute, uss_mib(service), uss_mib(subject.api()), disk / 2**20)


def slope(minutes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of a line through some values, an hour, over their mean; NaN for fewer than three."""
    if len(values) < 3:
        return float("nan")
    per_minute, _ = np.polyfit(minutes, values, 1)
    return round(float(per_minute) * 60 / float(np.mean(values)), 4)


if __name__ == "__main__":
    main()
