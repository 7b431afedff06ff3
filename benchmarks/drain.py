"""What spot notices cost: jobs on emulated nodes whose metadata service, on loopback, takes the nodes away.

    python -m benchmarks.drain [--notices 20] [--quick]

A job counts its steps into a file. Its node is given a notice of 30 s, then another one, and so on; then as many
of 120 s. Whoever has left a node in time need not wait for its end, so most notices are taken back then. The last
one of 30 s is carried out: the node ends at its deadline, and comes back.
Another job takes 35 s to save, which does not fit a notice of 30 s. Its node ends at the deadline, too.

`steps_lost_max`: steps that a job has done again after a notice that its checkpoint fits.
`left_30_median_s`: from a notice until the job has left. `pause_median_s`: without a step.
`told_30`: notices after which the job's events say that it saved.
`unfit_told`: notices that do not fit of which events say so. `unfit_steps_lost`: steps done again after these.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path

from coadapt.client.client import Client
from coadapt.core.cloud import Cloud
from coadapt.core.settings import Settings
from coadapt.deploy import emulated_power, local_cluster

from tests.support.metadata_server import MetadataServer, serving, soon

from .arguments import at_least
from .harness import finish, table

PATIENCE_S = 240.0
SCRIPT = Path(__file__).parent / "scripts" / "counted_steps.py"
NOTICES_S = (30.0, 120.0)
WARM_STEPS = 20  # of the job after each notice
SAVING_S = 35.0  # of the job whose checkpoint does not fit
LOOK_S = 0.1


@dataclass
class Seen:
    """What one job's notices have shown."""

    left_s: list[float] = field(default_factory=list)
    told: int = 0


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.drain", description="What spot notices cost jobs.")
    parser.add_argument("--notices", type=at_least(1), default=20, help="of each length (20)")
    parser.add_argument("--quick", action="store_true", help="three of each length")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder, serving(Cloud.AWS) as server:
        figures = measured(Path(folder), server, 3 if given.quick else given.notices)
    table("Spot notices", ["figure", "measured"], [[name, value] for name, value in figures.items()])
    finish("drain", figures)


def measured(folder: Path, server: MetadataServer, notices: int) -> Mapping[str, float]:
    """Give notices to the nodes of jobs on a cluster of their own."""
    home = folder / "home"
    before = os.environ.get("COADAPT_HOME")
    os.environ["COADAPT_HOME"] = str(home)
    settings = Settings(
        state_dir=str(home),
        policy="fifo",
        cloud=Cloud.AWS,
        metadata_url=server.url,
        metadata_every_s=1.0,
    )
    try:
        client = local_cluster.up("3x t4:2", settings=settings)
        stage = Stage(client, server, folder, str(home))
        try:
            return {**stage.fitting(notices), **stage.unfit()}
        except TimeoutError as error:
            told = [event["text"] for row in client.list() for event in client.describe(row["id"])["events"][-15:]]
            told += [event["text"] for event in client.cluster()["events"]]
            raise SystemExit("\n".join([str(error), *told])) from None
    finally:
        local_cluster.down(home)
        if before is None:
            del os.environ["COADAPT_HOME"]
        else:
            os.environ["COADAPT_HOME"] = before


class Stage:
    """A cluster whose nodes are given notices."""

    def __init__(self, client: Client, server: MetadataServer, folder: Path, state_dir: str) -> None:
        self._client, self._server, self._folder, self._state_dir = client, server, folder, state_dir

    def fitting(self, notices: int) -> Mapping[str, float]:
        """Give notices to a job that saves at once, and count the steps that it does again."""
        job, file = self._submit("quick")
        figures: dict[str, float] = {}
        began_s = time.time()
        for length_s in NOTICES_S:
            seen = Seen()
            for number in range(notices):
                really = length_s == NOTICES_S[0] and number == notices - 1
                self._notice(job, file, length_s, seen, really=really)
            name = f"{length_s:.0f}"
            figures |= {
                f"notices_{name}": notices,
                f"left_{name}_median_s": round(statistics.median(seen.left_s), 2),
                f"left_{name}_max_s": round(max(seen.left_s), 2),
                f"told_{name}": seen.told,
            }
        took_s = time.time() - began_s
        self._client.cancel(job)
        lost, pauses = lost_steps(file), pauses_s(file)
        return {
            "steps_lost_max": max(lost),
            "moves": len(lost),
            "pause_median_s": round(statistics.median(pauses), 2),
            "pause_max_s": round(max(pauses), 2),
            **figures,
            "notices_took_s": round(took_s, 1),
        }

    def unfit(self) -> Mapping[str, float]:
        """Give a notice to a job whose checkpoint does not fit, and look whether that is told."""
        job, file = self._submit("slow", SAVING_S)
        _until("the job saves", lambda: self._has_saved(job))
        self._until_it_goes_on(file)
        machine = self._machine(job)
        self._server.going_s[machine] = soon(NOTICES_S[0])
        self._end_node(machine)
        self._until_it_goes_on(file)
        texts = self._events(job)
        print("\n".join(["What its events say of a checkpoint that does not fit:", *texts[-12:]]))
        self._client.cancel(job)
        return {
            "unfit_notices": 1,
            "unfit_told": int(any("which does not fit" in text for text in texts)),
            "unfit_lost_told": int(any("as was told" in text for text in texts)),
            "unfit_steps_lost": max(lost_steps(file)),
        }

    # --- inside -----------------------------------------------------------------------------------------------

    def _submit(self, name: str, saving_s: float = 0.0) -> tuple[str, Path]:
        """Submit a job that writes its steps to a file, and wait until it trains."""
        home, file = self._folder / name, self._folder / f"steps-{name}"
        home.mkdir()
        (home / "train.py").write_text(SCRIPT.read_text())
        (home / "job.yaml").write_text(
            f"name: {name}\nscript: train.py\nargs: [{file}, {saving_s}]\nprofile: false\n"
            "resources: {max_gpus: 1}\ntraining: {report_interval_s: 2}\n"
        )
        job = self._client.submit(home / "job.yaml")
        self._until_it_goes_on(file)
        return job, file

    def _until_it_goes_on(self, file: Path) -> None:
        mark = len(_steps(file))
        _until("the job makes steps", lambda: len(_steps(file)) > mark + WARM_STEPS)

    def _notice(self, job: str, file: Path, length_s: float, seen: Seen, *, really: bool) -> None:
        """Give the job's node a notice, and wait until the job trains elsewhere."""
        machine, began_s = self._machine(job), time.time()
        self._server.going_s[machine] = soon(length_s)
        _until("the job leaves", lambda: any("has left" in text for text in self._events(job, began_s)))
        seen.left_s.append(time.time() - began_s)
        self._until_it_goes_on(file)
        seen.told += any("saved at step" in text for text in self._events(job, began_s))
        if really:
            self._end_node(machine)
        else:
            del self._server.going_s[machine]
        _until("the node takes work again", lambda: self._is_open(machine))

    def _end_node(self, machine: str) -> None:
        """End a node at its deadline, as its cloud does, and let it come back."""
        left_s = self._server.going_s[machine] - time.time()
        time.sleep(max(left_s, 0.0))  # the deadline is what counts
        emulated_power.sleep(self._state_dir, machine)
        del self._server.going_s[machine]
        emulated_power.wake(self._state_dir, machine)

    def _machine(self, job: str) -> str:
        """Return the machine that a job trains on, once it does."""
        found = list[str]()

        def runs() -> bool:
            row = self._client.describe(job)
            nodes = {node["id"]: node["machine"] for node in self._client.cluster()["nodes"]}
            found[:] = [nodes[id] for id in row["nodes"] if id in nodes]
            return row["phase"] == "running" and len(found) == 1

        _until("the job runs on one node", runs)
        return found[0]

    def _is_open(self, machine: str) -> bool:
        nodes = self._client.cluster()["nodes"]
        return any(node["machine"] == machine and not node["closed"] for node in nodes)

    def _events(self, job: str, since_s: float = 0.0) -> list[str]:
        """Return what was told of a job since a moment; only the newest events are asked for."""
        return [row["text"] for row in self._client.describe(job)["events"] if row["time_s"] >= since_s]

    def _has_saved(self, job: str) -> bool:
        return any((self._folder / "home" / "checkpoints" / job).glob("*.json"))


def lost_steps(file: Path) -> list[int]:
    """Return how many steps each process of a job has done again that the one before had done."""
    runs = [[number for number, _, _ in steps] for _, steps in groupby(_steps(file), key=lambda step: step[1])]
    return [max(before[-1] - after[0] + 1, 0) for before, after in pairwise(runs)] or [0]


def pauses_s(file: Path) -> list[float]:
    """Return how long each process of a job began after the last step of the one before."""
    return [other[2] - one[2] for one, other in pairwise(_steps(file)) if one[1] != other[1]] or [0.0]


def _steps(file: Path) -> list[tuple[int, int, float]]:
    """Return the steps that are written: number, process, moment. The last line may be cut."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    found = [line.split() for line in lines if line.endswith("\n")]
    return [(int(number), int(pid), float(at_s)) for number, pid, at_s in found]


def _until(what: str, holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"in {PATIENCE_S:.0f} s it was not so that {what}")
        time.sleep(LOOK_S)  # between two looks, up to a limit


if __name__ == "__main__":
    main()
