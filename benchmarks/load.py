"""The service under what a large cluster asks of it, over a store as it is after months.

    python -m benchmarks.load [--ended 100000] [--queued 10000] [--running 500] [--seconds 120] [--no-teams]

A real Ray cluster, the real scheduler and API; only the executors are stubs. They report each 30 s over Ray, and
measure a job for 30 s. Other processes submit ten jobs and read twenty pages of the list a second, have 100
streams of events open and follow 20 logs. 20 browsers have a page open, which comes anew as things change. The
jobs are those of four teams with guarantees and caps. All of it shares the machine's cores, clients too.
* tick_p99_ms, report_ms: of the scheduler's loop without its rounds, and CPU of one event of an executor.
* tick_growth: the median tick over the store with ended jobs, over that of one without any; nobody asks then.
* service_core_share, api_core_share: CPU seconds a second. service_mib, api_mib: PSS.
* service_start_s: from the process' first line of service to its first answer. list_cpu_s: of `coadapt list`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil

from .arguments import at_least
from .harness import finish, table
from .months.clients import Plan
from .months.house import House, house, own_folder, pss_mib, settings_in
from .months.many_jobs import fill, teams_of

BROWSERS = 20
QUIET_S = 45.0  # of ticks that nobody disturbs
LISTS = 5
MOST_GPUS = 64  # of an emulated node


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ended", type=at_least(0), default=100_000)
    parser.add_argument("--queued", type=at_least(0), default=10_000)
    parser.add_argument("--running", type=at_least(1), default=500)
    parser.add_argument("--seconds", type=at_least(1), default=120)
    parser.add_argument("--no-teams", action="store_true", help="the cluster has no teams")
    args = parser.parse_args()
    teams = not args.no_teams
    with own_folder() as folder:  # for both: a process reads Ray's token once
        figures = measured(folder / "with", args.ended, args.queued, args.running, args.seconds, teams)
        without = quiet_ticks(folder / "without", 0, args.queued, args.running, teams)
    figures["tick_growth"] = round(figures.pop("quiet_tick_ms") / without, 3)
    table(
        f"{args.ended:,} ended, {args.queued:,} queued, {args.running:,} running; clients for {args.seconds} s",
        ["", "measured"],
        [[name, value] for name, value in figures.items()],
    )
    finish("load", figures, f"{args.ended} ended, {args.queued} queued, {args.running} running")


@contextmanager
def busy_house(folder: Path, ended: int, queued: int, running: int, teams: bool) -> Iterator[House]:
    """Yield a service over a store of so many jobs, once those that run do."""
    settings = settings_in(folder)
    folder.mkdir()
    fill(settings, ended, queued + running, of_teams=teams)
    with house(settings, _nodes(running)) as subject:
        if teams:
            subject.client.apply_teams(teams_of(running))
        subject.until_running(running)
        yield subject


def measured(folder: Path, ended: int, queued: int, running: int, seconds: float, teams: bool) -> dict[str, float]:
    """Return all figures over one store."""
    with busy_house(folder, ended, queued, running, teams) as subject:
        figures = {"quiet_tick_ms": _quiet_tick_ms(subject)}
        jobs = [row["id"] for row in subject.client._api.get("/v1/jobs", phase="running", limit=20)["items"]]
        plan = Plan(
            seconds=seconds, pages=BROWSERS, logs=tuple(jobs), package=subject.put_package(folder / "script")
        )
        subject.ask("forget_times")
        before, api_before = subject.ask("times"), _cpu_s(subject.api())
        began_s = time.monotonic()
        found = subject.load(plan)
        took_s = time.monotonic() - began_s
        after, api_after = subject.ask("times"), _cpu_s(subject.api())
        service = psutil.Process(after["pid"])
        figures |= {
            "submit_p50_ms": _ms(found.submit_s, 0.5),
            "submit_p99_ms": _ms(found.submit_s, 0.99),
            "list_page_p50_ms": _ms(found.list_s, 0.5),
            "list_page_p99_ms": _ms(found.list_s, 0.99),
            "event_p50_ms": _ms(found.event_s, 0.5),
            "event_p99_ms": _ms(found.event_s, 0.99),
            "page_anew_p50_ms": _ms(found.page_s, 0.5),
            "page_anew_p99_ms": _ms(found.page_s, 0.99),
            "tick_p99_ms": _ms(after["ticks"], 0.99),
            "round_p99_ms": _ms(after["rounds"], 0.99),
            "report_ms": round(float(np.mean(after["reports"])) * 1e3, 3),
            "submitted": len(found.submitted),
            "pages": len(found.list_s),
            "pages_anew": len(found.page_s),
            "events": len(found.event_s),
            "logs_followed": found.followed,
            "failed": sum(found.failed.values()),
            "service_core_share": round((after["cpu_s"] - before["cpu_s"]) / took_s, 3),
            "api_core_share": round((api_after - api_before) / took_s, 3),
            "service_mib": round(pss_mib(service), 1),
            "api_mib": round(pss_mib(subject.api()), 1),
            "list_cpu_s": _list_cpu_s(folder),
            "service_start_s": _start_s(subject, service),
        }
        if found.failed:
            print("failed:", found.failed)
        return figures


def quiet_ticks(folder: Path, ended: int, queued: int, running: int, teams: bool) -> float:
    """Return the median milliseconds of a tick over a store that nobody asks."""
    with busy_house(folder, ended, queued, running, teams) as subject:
        return _quiet_tick_ms(subject)


def _quiet_tick_ms(subject: House) -> float:
    subject.ask("forget_times")
    time.sleep(QUIET_S)  # so long ticks are timed
    return float(np.median(subject.ask("times")["ticks"])) * 1e3


def _nodes(gpus: int) -> str:
    """Return the fewest emulated nodes with so many GPUs together."""
    nodes = -(-gpus // MOST_GPUS)
    return f"{nodes}x t4:{-(-gpus // nodes)}"


def _ms(seconds: Sequence[float], quantile: float) -> float:
    return round(float(np.quantile(seconds, quantile)) * 1e3, 1) if seconds else float("nan")


def _cpu_s(process: psutil.Process) -> float:
    cpu = process.cpu_times()
    return float(cpu.user + cpu.system)


def _list_cpu_s(folder: Path) -> float:
    """Return the CPU seconds of the command `coadapt list`, the least of some."""
    seconds = []
    for _ in range(LISTS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "coadapt.cli.main", "list"],
            env={**os.environ, "COADAPT_HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return round(min(seconds), 3)


def _start_s(subject: House, service: psutil.Process) -> float:
    """Kill the service, and return how long the next one takes from its first line to its first answer."""
    service.kill()
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        try:
            told = subject.ask("times")
        except Exception:
            time.sleep(0.2)  # Ray makes it anew
            continue
        if told["pid"] != service.pid:
            return round(float(told["start_s"]), 2)
    return float("inf")


if __name__ == "__main__":
    main()
