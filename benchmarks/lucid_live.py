"""The policy `lucid`, live: 40 jobs, a third of them plain programs, and then their trace in the simulator.

    python -m benchmarks.lucid_live [--jobs 40] [--seed 0] [--out FOLDER]

Four emulated nodes of 8 GPUs in two pools run jobs that are drawn by a seed. One node measures new jobs, and a
burst borrows another one. The service is killed twice. Then `coadapt trace` is replayed under the same policy,
again and again with jobs up to a second later, as tenths of seconds decide who comes first.

* mean_jct_rel_err: mean JCT of these replays over the live one, less one, without its sign.
* jobs_lost: jobs that did not succeed. shares_exceeded: moments at which jobs held more of a GPU than there is.
* pairs: pairs of jobs that shared GPUs. measured: jobs that were on the measuring node first.
* borrowed: nodes that were borrowed. modes: how many of default, apathetic and off the log shows.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.client.client import Client
from coadapt.core.job import JobSpec, Phase
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.policies.lucid import BORROWED, MODE_TOLD
from coadapt.scheduler.store.store import Store
from coadapt.simulator.conditions import EARLY_S, Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least
from .harness import finish, table
from .months.victims import Victims, sigkill
from .shares_held import Shares
from .shares_held import read as read_shares

CLUSTER = "2x t4:8@vision, 2x t4:8@speech"
ROUND_S, JITTER_S, REPLAYS, CAP_S = 5.0, 1.0, 20, 1500.0
SCRIPTS = Path(__file__).parent / "scripts"
TRAINS, PLAIN = "steps_again.py", "ticks.py"
SCHEDULER = "ray::SchedulerService"
EPOCH_S = 5.6  # of the training script on one emulated T4, at the time scale of these jobs
OPTIONS: dict[str, Any] = {
    "modes": {"low_jobs": 12},
    "profiler": {"t_prof_s": 30.0, "burst_s": 20.0, "grow_at": 5, "shrink_at": 2},
}
KILLS = (0.35, 0.7)  # of the jobs that have come


@dataclass(frozen=True)
class Drawn:
    """A job, and how long after the first one it comes."""

    after_s: float
    spec: JobSpec


def drawn(count: int, seed: int, folder: Path) -> list[Drawn]:
    """Return jobs: few at first, then a burst, then as they come. Every third one is a plain program."""
    draw = random.Random(seed)
    first, burst = 2, max(count // 3, 2)
    times = [0.0, 20.0][:first] + [60.0 + draw.uniform(0, 10) for _ in range(burst)]
    while len(times) < count:
        times.append(times[-1] + draw.expovariate(1 / 9.0))
    return [Drawn(at, _job(number, draw, folder)) for number, at in enumerate(sorted(times[:count]))]


def _job(number: int, draw: random.Random, folder: Path) -> JobSpec:
    plain = number % 3 == 2
    seconds = min(draw.lognormvariate(4.7, 0.5), 240.0)
    gpus = draw.choice((1, 1, 2, 4, 8)) if plain else draw.choice((1, 1, 1, 2))
    file = str(folder / f"done-{number}")
    use = {"gpu_util": draw.uniform(0.1, 0.6), "memory_gib": draw.uniform(1.0, 6.0)}
    written: dict[str, Any] = {
        "name": f"{'plain' if plain else 'trains'}-{number}",
        "script": PLAIN if plain else TRAINS,
        "working_dir": str(folder / "job"),
        "pool": "vision" if draw.random() < 0.6 else "speech",
        "emulation": {"profile": "cifar10", "time_scale": 0.25, **use},
    }
    if plain:
        more = {"elastic": False, "restartable": True, "resources": {"gpus": gpus}, "processes": "node"}
        return JobSpec.model_validate(written | more | {"args": [file, f"{seconds:.0f}"]})
    epochs = max(round(seconds / EPOCH_S), 4)
    rigid = {"adaptivity": "rigid", "report_interval_s": 2.0}
    more = {"profile": False, "resources": {"gpus": gpus}, "training": rigid}
    return JobSpec.model_validate(written | more | {"args": [file, str(epochs)]})


class Live:
    """Submits jobs as they come, and kills the service now and then."""

    def __init__(self, client: Client, victims: Victims) -> None:
        self._client, self._victims, self.killed = client, victims, 0

    def run(self, jobs: Sequence[Drawn]) -> list[dict[str, Any]]:
        """Return a row for each job, once all have ended."""
        began_s, ids = time.monotonic(), list[str]()
        for number, job in enumerate(jobs):
            time.sleep(max(began_s + job.after_s - time.monotonic(), 0.0))
            ids.append(self._client.submit(job.spec))
            if self.killed < len(KILLS) and number + 1 >= KILLS[self.killed] * len(jobs):
                self._kill(number + 1)
        self._client.wait(ids, timeout_s=CAP_S)
        rows = {row["id"]: row for row in self._client.list()}
        return [dict(rows[id]) for id in ids]

    def _kill(self, jobs: int) -> None:
        """Kill the service, unless it is just being made anew."""
        killed = [sigkill(one) for one in self._victims.actors(SCHEDULER)]
        if any(killed):
            self.killed += 1
            print(f"{time.strftime('%H:%M:%S')} the service was killed after {jobs} jobs", flush=True)


def jittered(workload: Workload) -> Iterator[Workload]:
    """Yield the same jobs, each a little later, again and again."""
    draw = np.random.default_rng(0)
    while True:
        order = np.argsort(later := workload.submit_s + draw.uniform(0, JITTER_S, len(workload)), kind="stable")
        yield replace(workload, submit_s=later).select(order)


def replay(workload: Workload) -> Outcome:
    """Replay the recorded jobs under the nodes, the policy and the rounds of the live cluster."""
    nodes = read_cluster(CLUSTER)
    under = Conditions(Timing(ROUND_S, early_s=EARLY_S), lengths=Lengths.LEARNED)
    return simulation(workload, nodes, "lucid", OPTIONS, source_of(False, None, nodes), under).run()


@dataclass(frozen=True)
class Seen:
    """What the log of the live cluster shows."""

    shares: Shares
    pairs: frozenset[frozenset[str]]
    measured: int
    modes: tuple[str, ...]
    borrowed: tuple[str, ...]


def seen(settings: Settings, nodes: Sequence[Mapping[str, Any]], notes: Collection[str]) -> Seen:
    """Return what notes of rounds tell, and the store's events with the parts of GPUs that jobs held."""
    store = Store(settings.store)
    try:
        events = sorted(store.events(last=1_000_000), key=lambda one: one.number)
    finally:
        store.close()
    held: dict[str, frozenset[tuple[str, str]]] = {}
    pairs, first = set[frozenset[str]](), dict[str, frozenset[str]]()
    for event in events:
        if event.job_id is None or "on" not in event.data:
            continue
        mine = frozenset((node, gpu) for node, gpus in event.data["on"].items() for gpu in gpus)
        held[event.job_id] = mine
        if mine:
            first.setdefault(event.job_id, frozenset(node for node, _ in mine))
            pairs |= {frozenset({event.job_id, other}) for other, gpus in held.items() if gpus == mine}
    borrowed = tuple(sorted(row["id"] for row in nodes if BORROWED.format(row["id"]) in notes))
    measuring = {_measuring(nodes), *borrowed}
    return Seen(
        read_shares(events),
        frozenset(pair for pair in pairs if len(pair) == 2),
        sum(where <= measuring for where in first.values()),
        tuple(mode.value for mode, told in MODE_TOLD.items() if told in notes),
        borrowed,
    )


def _measuring(nodes: Sequence[dict[str, Any]]) -> str:
    """Return the node that measures new jobs: the last one of the first of the largest pools."""
    pools: dict[str, list[str]] = {}
    for row in nodes:
        pools.setdefault(row["pool"] or "", []).append(row["id"])
    name = min(pools, key=lambda pool: (-len(pools[pool]), pool))
    return sorted(pools[name])[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=at_least(3), default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the trace and what became of its jobs are kept")
    parser.add_argument("--again", type=Path, help="only replay what such a folder has kept")
    options = parser.parse_args()
    if options.again is not None:
        compared(options.again)
        return 0
    began_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="coadapt-lucid-"))
    out = options.out or folder / "out"
    try:
        (folder / "job").mkdir()
        out.mkdir(parents=True, exist_ok=True)
        for script in (TRAINS, PLAIN):
            shutil.copy(SCRIPTS / script, folder / "job")
        settings = Settings(
            state_dir=str(folder / "state"), policy="lucid", policy_options=OPTIONS, round_interval_s=ROUND_S
        )
        with local_cluster.cluster(CLUSTER, settings=settings) as client:
            live = Live(client, Victims(settings.state_dir, folder.name))
            rows = live.run(drawn(options.jobs, options.seed, folder))
            nodes = client.cluster()["nodes"]
            notes = {note for row in client.rounds(most=100_000) for note in row["notes"]}
            (out / "trace.jsonl").write_text("".join(f"{line}\n" for line in client.trace()))
        (out / "jobs.json").write_text(json.dumps(rows))
        found = seen(settings, nodes, notes)
        error = compared(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(found.shares.exceeded))
    figures = {
        **error,
        "jobs_lost": sum(row["status"] != Phase.SUCCEEDED.value for row in rows),
        "service_killed": live.killed,
        "shares_exceeded": len(found.shares.exceeded),
        "gpus_shared": len(found.shares.shared),
        "pairs": len(found.pairs),
        "measured": found.measured,
        "borrowed": len(found.borrowed),
        "modes": len(found.modes),
        "seconds": round(time.monotonic() - began_s, 1),
    }
    print(f"modes seen: {', '.join(found.modes)}; borrowed: {', '.join(found.borrowed) or 'no node'}")
    finish("lucid_live", figures)
    return int(bool(figures["jobs_lost"] or figures["shares_exceeded"]) or not figures["pairs"])


def compared(out: Path) -> dict[str, float]:
    """Print each job beside its replays, and return the figures of both."""
    workload, rows = read_trace(out / "trace.jsonl"), json.loads((out / "jobs.json").read_text())
    live_s = {row["id"]: row["finished_s"] - row["submitted_s"] for row in rows if row["finished_s"] is not None}
    waited_s = {row["id"]: (row["started_s"] or row["submitted_s"]) - row["submitted_s"] for row in rows}
    ran = [replay(one) for one in islice(jittered(workload), REPLAYS)]
    jct_s = _means(workload.ids, ran, lambda one: one.jct_s)
    starts_s = _means(workload.ids, ran, lambda one: one.started_s - one.workload.submit_s)
    columns = zip(workload.ids, workload.gpus.tolist(), workload.duration_s, starts_s, jct_s, strict=True)
    table(
        "Each job, live and in the mean of its replays, s",
        ["job", "GPUs", "takes alone", "waited", "waits in replays", "JCT", "in replays", "off"],
        [
            [
                id,
                gpus,
                f"{takes_s:.0f}",
                f"{waited_s[id]:.0f}",
                f"{waits_s:.0f}",
                f"{live_s[id]:.0f}",
                f"{mean_s:.0f}",
                f"{mean_s / live_s[id] - 1:+.0%}",
            ]
            for id, gpus, takes_s, waits_s, mean_s in columns
        ],
    )
    live, simulated = float(np.mean([live_s[id] for id in workload.ids])), float(jct_s.mean())
    return {
        "jobs": len(rows),
        "in_trace": len(workload),
        "live_mean_jct_s": round(live, 1),
        "simulated_mean_jct_s": round(simulated, 1),
        "mean_jct_rel_err": round(abs(simulated / live - 1), 4),
    }


def _means(ids: Sequence[str], ran: Sequence[Outcome], column: Callable[[Outcome], np.ndarray]) -> np.ndarray:
    """Return (jobs,) the mean of a column over replays, in the order of `ids`."""
    found = []
    for one in ran:
        at = {id: i for i, id in enumerate(one.workload.ids)}
        found.append(column(one)[[at[id] for id in ids]])
    return np.mean(found, axis=0)


if __name__ == "__main__":
    sys.exit(main())
