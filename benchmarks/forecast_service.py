"""The forecast of teams' arrivals beside rounds: learned from a store of 26 days, refused where torn, and watched.

    python -m benchmarks.forecast_service [--days 26]

A store holds Venus' jobs of September 2020. A scheduler without Ray begins over it, with `anticipatory` and the
service `team_load`, and holds rounds while the model is fitted beside them. Then the model's file is torn, is that
of another service, and is of other windows. Drift is in virtual time, every 5 min: a team that submits from 9 to
17 o'clock comes from 1 o'clock on one day, and as usual from the next on.

`train_s`: from the first round until the model is in use and in its file.
`begin_s`: of the first round, in which the service is told of all jobs of the store.
`round_median_ms`, `round_worst_ms`: of rounds while it is fitted; `round_idle_median_ms`: after that.
`refused`: bad files of 3 that are told in one sentence, and after which jobs are expected to arrive.
`drift/off_after_h`: from the first job that came at another time until jobs are expected to come at any time.
`drift/on_after_h`: from the first job that came as usual until the forecast is heeded again for good.
`drift/off_before_percent`: of the five days before, in which it was not heeded.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from coadapt.core.job import JobSpec, Phase
from coadapt.estimators import learned_file
from coadapt.estimators.job_history import SubmittedJob
from coadapt.policies.anticipatory import AnticipatoryOptions, AnticipatoryPolicy
from coadapt.scheduler.services.catalogue import make_services
from coadapt.scheduler.services.host import FitAtOnce, ServiceHost
from coadapt.scheduler.services.team_load import TeamLoad, TeamLoadService
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.simulator.traces.workload import Workload

from tests.support.cycles import World

from .anticipatory_helios import SIZES, TRACE, venus
from .arguments import at_least
from .harness import finish, needs, table

HOUR_S, DAY_S, STEP_S = 3600.0, 86_400.0, 300.0
BATCH, WAITING = 200, 100
FILE = "learned/team_load.json"
EXPECTED = ("is torn", "holds 'arrivals'", "is of windows of")


def world_of(folder: Path) -> World:
    return World(
        folder,
        "4x gpu:8",
        planner=AnticipatoryPolicy(AnticipatoryOptions()),
        traits=AnticipatoryPolicy.traits,
        services={"team_load": {}},
    )


def spec_of(gpus: int, team: str) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "job",
            "script": "train.py",
            "team": team,
            "resources": {"gpus": gpus},
            "training": {"adaptivity": "rigid"},
            "profile": False,
        }
    )


def fill(world: World, jobs: Workload) -> None:
    """Write jobs that have ended into the store; each began as it was submitted. Some more wait now."""
    begin_s = world.clock.steady_s()
    submit_s = jobs.submit_s - jobs.submit_s.min()
    rows = list(zip(jobs.ids, submit_s, jobs.duration_s, jobs.gpus, jobs.virtual_clusters, strict=True))
    world.clock.forward(float(rows[-1][1]) + 1.0)
    now = world.clock.steady_s()
    done = [row for row in rows if begin_s + row[1] + row[2] < now]
    for at in range(0, len(done), BATCH):
        with world.store.together():
            for id, came_s, takes_s, gpus, team in done[at : at + BATCH]:
                at_s, end_s = begin_s + float(came_s), begin_s + float(came_s + takes_s)
                job, _ = world.store.submit(spec_of(int(gpus), team), at_s, idempotency_key=id, owner="ada")
                world.store.hold(UsageInterval(job.id, at_s, None, "gpu", int(gpus), 1))
                state = replace(job.state, phase=Phase.CANCELLED, started_s=at_s, finished_s=end_s)
                world.store.save(replace(job, state=state, retired=True), now=end_s)
    with world.store.together():
        for at in range(WAITING):
            world.store.submit(spec_of(1, rows[at][4]), now, idempotency_key=f"waits-{at}", owner="ada")


def rounds(world: World) -> Iterator[float]:
    """Hold rounds and yield how many ms each took."""
    while True:
        world.cycle.ask_round()
        began = time.perf_counter()
        world.tell("go", ["1"])
        yield 1e3 * (time.perf_counter() - began)


def trained(folder: Path, days: float) -> dict[str, float]:
    """Return the figures of learning from a store."""
    world = world_of(folder)
    fill(world, venus(days, 0, 1.0).jobs)
    world.store.close()
    world.open()
    held = rounds(world)
    begin_s, began = next(held) / 1e3, time.perf_counter()
    beside = list[float]()
    while not (folder / FILE).exists():
        beside.append(next(held))
    train_s = time.perf_counter() - began
    world.cycle.foresight.wait(60.0)
    after = [next(held) for _ in range(50)]
    told = [event.data["text"] for event in world.store.cluster_events(50)]
    service = TeamLoadService()
    document, _ = learned_file.read(folder / FILE, "team_load")
    service.read(document)
    world.store.close()
    if told:
        raise SystemExit(f"the service told of trouble: {told}")
    return {
        "begin_s": begin_s,
        "train_s": train_s,
        "round_median_ms": float(np.median(beside)),
        "round_worst_ms": max(beside),
        "rounds_beside": float(len(beside)),
        "round_idle_median_ms": float(np.median(after)),
        "model_mib": (folder / FILE).stat().st_size / 2**20,
    }


def refused(folder: Path) -> tuple[int, list[str]]:
    """Return how many of three bad files are refused, and what is told of them."""
    path = folder / FILE
    document, until_s = learned_file.read(path, "team_load")
    whole, said = path.read_text(), list[str]()
    other = json.loads(json.dumps(document))
    for one in other["windows"]:
        one["window_s"] *= 2
    for spoil in (
        lambda: path.write_text(whole[: len(whole) // 2]),
        lambda: learned_file.write(path, "arrivals", document, until_s),
        lambda: learned_file.write(path, "team_load", other, until_s),
    ):
        spoil()
        world = world_of(folder)
        said.append(str(world.store.cluster_events(1)[0].data["text"]))
        foresight = world.cycle.foresight.of_teams(world.clock.steady_s())
        world.store.close()
        if foresight is None or foresight.new_load("vcEwI", HOUR_S) == 0:
            said[-1] = ""
    return sum(part in text and "\n" not in text for part, text in zip(EXPECTED, said, strict=True)), said


def drift() -> dict[str, float]:
    """Return how soon a team that comes at another time is not lent by the forecast, and when it is again."""
    changed, days = 10, 16
    host = ServiceHost(make_services({"team_load": {}}), FitAtOnce())
    for day in range(days):
        first_h = 1 if day == changed else 9
        for n in range(48):
            at_s = DAY_S * day + HOUR_S * first_h + 600.0 * n
            host.submitted(SubmittedJob(f"{day}-{n}", "ada", "train", "", 4, 0.0, at_s, team="vision"))
    off = list[tuple[float, bool]]()
    for now in np.arange(DAY_S * 5, DAY_S * days, STEP_S).tolist():
        host.advance(now)
        foresight = host.foresight(now)
        off.append((now, not isinstance(foresight, TeamLoad) or ("vision", HOUR_S) in foresight.missed))
    came_s, usual_s = DAY_S * changed + HOUR_S, DAY_S * (changed + 1) + 9 * HOUR_S
    off_s = next(at for at, is_off in off if at >= came_s and is_off)
    on_s = max((at for at, is_off in off if at >= off_s and is_off), default=off_s) + STEP_S
    before = [is_off for at, is_off in off if at < came_s]
    return {
        "drift/off_after_h": (off_s - came_s) / HOUR_S,
        "drift/on_after_h": (on_s - usual_s) / HOUR_S,
        "drift/off_before_percent": 100 * float(np.mean(before)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=at_least(4), default=26)
    options = parser.parse_args()
    needs(TRACE, SIZES)
    with tempfile.TemporaryDirectory() as name:
        figures = trained(Path(name), options.days)
        figures["refused"], said = refused(Path(name))
    figures |= drift()
    for text in said:
        print(text)
    table("", ["", "measured"], [[key, value] for key, value in figures.items()])
    finish("forecast_service", {key: round(value, 4) for key, value in figures.items()})


if __name__ == "__main__":
    main()
