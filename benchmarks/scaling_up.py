"""Buy nodes of Ray's own autoscaler as load comes, give them up as it goes, and compare the cost.

Live: the autoscaler runs with its fake provider, which starts and ends real raylets on this machine. Jobs come
for which cheap nodes do, then more than the budget holds, then one for a dear type; then all end.
Simulated: load that doubles and comes back, beside a fixed cluster of the dearest moment.

    python -m benchmarks.scaling_up [--seeds 3] [--policies coadapt sia fifo] [--part live|simulated]
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # before Ray is imported, which reads it once

from coadapt.client.client import Client
from coadapt.core.job import JobSpec
from coadapt.core.scaling_settings import ScalingSettings
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.deploy.ray_connection import leave_ray

from . import harness
from .scaling.fake_cluster import fake_cluster
from .scaling.load import compare

ROUND_S, ROUNDS, IDLE_S = 2.0, 3, 8.0
WORK = "import sys, time\ntime.sleep(float(sys.argv[1]))  # the job is its length\n"
PRICES = {"t4": 3.0, "t4-spot": 1.0, "a100": 9.0}
GPU_TYPES = {"t4": "t4", "t4-spot": "t4", "a100": "a100"}
MOST = {"t4": 4, "t4-spot": 2, "a100": 1}
BUDGET = 17.5  # two of each cheap type, and the dear node, cost 17
LIVE = ScalingSettings.model_validate(
    {
        "budget_per_h": BUDGET,
        "rounds": ROUNDS,
        "idle_s": IDLE_S,
        "keep_s": 0.0,
        "request_limit_s": 300.0,
        "types": {
            name: {
                "gpu_type": GPU_TYPES[name],
                "gpus": 2,
                "price_per_h": PRICES[name],
                "max": MOST[name],
                "spot": name.endswith("spot"),
            }
            for name in PRICES
        },
    }
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=3, help="simulated loads")
    parser.add_argument("--policies", nargs="+", default=["coadapt", "sia", "fifo"])
    parser.add_argument("--part", choices=("live", "simulated"), help="only one of the two")
    arguments = parser.parse_args()
    figures: dict[str, float | int | str | None] = {}
    if arguments.part != "simulated":
        figures |= live()
    if arguments.part != "live":
        figures |= simulated(arguments.policies, arguments.seeds)
    harness.finish("scaling_up", figures)
    return 0


def simulated(policies: list[str], seeds: int) -> dict[str, float]:
    """Return the cost of progress relative to a fixed cluster, over all policies and seeds, and print each."""
    found = {(policy, seed): compare(policy, seed) for policy in policies for seed in range(seeds)}
    harness.table(
        "Load that doubles for four hours and comes back",
        ["policy", "seed", "dollars", "fixed", "cost ratio", "mean JCT h", "fixed", "fixed cluster"],
        [
            [
                policy,
                seed,
                one.dollars,
                one.fixed_dollars,
                one.cost_ratio,
                one.jct_s / 3600,
                one.fixed_jct_s / 3600,
                ", ".join(f"{count}x {name}" for name, count in sorted(one.peak.items())),
            ]
            for (policy, seed), one in found.items()
        ],
    )
    by_policy = {
        policy: float(np.mean([one.cost_ratio for (of, _), one in found.items() if of == policy]))
        for policy in policies
    }
    jct = float(np.mean([one.jct_s / one.fixed_jct_s for one in found.values()]))
    return {
        "cost_ratio": max(by_policy.values()),
        **{f"cost_ratio_{policy}": ratio for policy, ratio in by_policy.items()},
        "jct_ratio": jct,
    }


# --- live -----------------------------------------------------------------------------------------------------


def live() -> dict[str, float | int]:
    """Run jobs on nodes that are bought, and return what was asked for, when, and what it cost."""
    folder = Path(tempfile.mkdtemp(prefix="coadapt-scaling-"))
    (folder / "work").mkdir()
    (folder / "work" / "work.py").write_text(WORK)
    settings = Settings(
        policy="fifo",
        state_dir=str(folder / "state"),
        round_interval_s=ROUND_S,
        restart_cost_s=1.0,
        node_refresh_s=0.5,
        scaling=LIVE,
    )
    try:
        with fake_cluster() as record:
            client = local_cluster.up(address=record.address, settings=settings)
            try:
                return Story(client, folder).play()
            finally:
                client.close()
                local_cluster.down(settings.state_dir, grace_s=5.0)
                leave_ray()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Story:
    """What happens, and what is seen of it."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.busy_s: dict[str, float] = {}  # by node: when a job was last seen there
        self.left_s: dict[str, float] = {}  # by node: when it was first seen to take no more jobs
        self.held_back = False  # whether it was told that the budget does not allow more
        self.most_cost = self.most_raylets_cost = 0.0
        self.submitted_s: dict[str, float] = {}
        self._stop = threading.Event()
        self._watch = threading.Thread(target=self._look, name="looks", daemon=True)

    def play(self) -> dict[str, float | int]:
        """Let load come and go."""
        self._watch.start()
        first = [self.submit("t4", 120.0) for _ in range(2)]
        self._until(lambda: self.running(first), 300.0)
        # The cheap type is used up: these get nodes of the next one, and one of the dear type.
        more = [self.submit("t4", 80.0) for _ in range(2)]
        dear = [self.submit("a100", 80.0)]
        self._until(lambda: self.running([*more, *dear]), 300.0)
        # The budget is used up: this one waits until a node is free.
        last = [self.submit("t4", 10.0)]
        self._until(lambda: self.held_back, 60.0)
        self._until(lambda: self.ended([*first, *more, *dear, *last]), 600.0)
        self._until(lambda: not any(row["here"] or row["asked"] for row in self.view()["types"]), 120.0)
        self._stop.set()
        self._watch.join(10.0)
        return self._figures()

    def submit(self, gpu_type: str, seconds: float) -> str:
        """Submit a job that takes a whole node."""
        spec = JobSpec.model_validate(
            {
                "name": f"on-{gpu_type}",
                "command": ["python", "work.py", str(seconds)],
                "working_dir": str(self.folder / "work"),
                "resources": {"gpu_types": [gpu_type], "gpus": 2},
                "restartable": True,
            }
        )
        job = self.client.submit(spec)
        self.submitted_s[job] = time.time()
        return job

    def running(self, jobs: list[str]) -> bool:
        return all(self.client.describe(job)["started_s"] is not None for job in jobs)

    def ended(self, jobs: list[str]) -> bool:
        return all(self.client.describe(job)["finished_s"] is not None for job in jobs)

    def view(self) -> Mapping[str, Any]:
        found = self.client.cluster()["scaling"]
        assert found is not None
        return found

    def raylets(self) -> dict[str, int]:
        """Return how many nodes of each type are really there."""
        import ray

        found: dict[str, int] = {}
        for row in ray.nodes():
            name = row["Labels"].get("coadapt.io/node-type")
            if row["Alive"] and name:
                found[name] = found.get(name, 0) + 1
        return found

    def _look(self) -> None:
        while not self._stop.wait(0.2):  # a sample of what is there
            cluster = self.client.cluster()
            here = {node["id"]: bool(node["jobs"]) for node in cluster["nodes"]}
            for node in self.busy_s.keys() - here.keys() - self.left_s.keys():
                self.left_s[node] = time.time()
            self.busy_s |= {node: time.time() for node, busy in here.items() if busy}
            scaling = cluster["scaling"]
            if scaling is not None:
                self.most_cost = max(self.most_cost, scaling["cost_per_h"])
                self.held_back |= any("of the budget are left" in line for line in scaling["lines"])
            cost = sum(PRICES[name] * count for name, count in self.raylets().items())
            self.most_raylets_cost = max(self.most_raylets_cost, cost)

    def _until(self, accept: Callable[[], bool], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not accept():
            if time.monotonic() > deadline:
                raise SystemExit(f"it took longer than {limit_s:.0f} s: {self.view()}")
            time.sleep(0.2)  # between two questions to the service, up to a limit

    def _figures(self) -> dict[str, float | int]:
        events = self.client.events(kinds=["scaling"], last=500)
        for event in events:
            print(f"{event['time_s'] - min(self.submitted_s.values()):7.1f} s  {event['text']}", flush=True)
        asked = [event for event in events if " asked for, at " in event["text"]]
        given_up = [event for event in events if " is given up: " in event["text"]]
        starts = sorted(row["time_s"] for row in self.client.rounds(most=500))
        late = [self._request_late(event, starts) for event in asked]
        released = [max(_idle_s(event["text"]) - IDLE_S, 0.0) / ROUND_S for event in given_up]
        after = [self.left_s[node] - busy_s for node, busy_s in self.busy_s.items() if node in self.left_s]
        gone = [event for event in events if event["text"].endswith("has gone, as it was given up")]
        cheapest = self._cheapest(asked)
        figures = {
            "cheapest_chosen": cheapest / len(asked) if asked else 0.0,
            "requests": len(asked),
            "releases": len(given_up),
            "nodes_gone": len(gone),
            "held_back_by_budget": int(self.held_back),
            "budget_exceeded": int(self.most_cost > BUDGET) + int(self.most_raylets_cost > BUDGET),
            "most_dollars_per_h": self.most_cost,
            "request_late_rounds": max(late, default=99),
            "release_late_rounds": max(released, default=99.0),
            "release_after_job_s": max(after, default=99.0),  # also what is removed after jobs, and samples
        }
        harness.table("Ray's autoscaler with its fake provider", ["figure", "value"], list(figures.items()))
        return figures

    def _request_late(self, event: Mapping[str, Any], starts: list[float]) -> int:
        """Return how many rounds a request came after the need had lasted for long enough."""
        job = next((job for job in self.submitted_s if job in event["text"]), None)
        if job is None:
            return 99
        waited = [at for at in starts if self.submitted_s[job] <= at <= event["time_s"]]
        return max(len(waited) - ROUNDS, 0)

    def _cheapest(self, asked: list[Mapping[str, Any]]) -> int:
        """Return how many requests were for the cheapest type that was to be had for the job's GPU type."""
        taken, right = dict.fromkeys(PRICES, 0), 0
        for event in asked:
            words = event["text"].split()
            count, chosen = int(words[0]), words[words.index("type") + 1]
            cost = sum(PRICES[name] * number for name, number in taken.items())
            had = [
                name
                for name in PRICES
                if GPU_TYPES[name] == event["text"].rsplit(" ", 1)[1]
                and taken[name] < MOST[name]
                and cost + PRICES[name] <= BUDGET
            ]
            right += bool(had) and chosen == min(had, key=lambda name: PRICES[name])
            taken[chosen] += count
        return right


def _idle_s(told: str) -> float:
    """Return for how long nothing ran on a node, as it is told: "… nothing ran there for 8.3 s, …"."""
    return float(told.split(" ran there for ")[1].split()[0])


if __name__ == "__main__":
    raise SystemExit(main())
