"""Seeded faults, one after the other, under ten jobs that train and under many whose executors are stubs.

    python -m benchmarks.chaos [--faults 200] [--heads 20] [--jobs 10] [--only real|stub] [--seed 0]

SIGKILL of service, API, executors, worker, training process and raylet, and of the whole head; connections that
are dropped after a request has arrived; writes that the kernel refuses for 3 s. After each fault `doctor` looks at
the store. The training script counts how often it sees each sample (see `kill_tests`).
* absence_p99_s: for how long the scheduler did not answer through the API, where the head lived.
* head_back_p95_s: from the death of the head until the scheduler answers again, by `coadapt up` once more.
* jobs_lost, jobs_duplicated, samples_wrong, doctor_findings: over all faults.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from coadapt.deploy import store_care

from .arguments import at_least
from .harness import finish, table
from .kill_tests import MARK, counting
from .months.absence import Absence
from .months.real_world import RealWorld
from .months.stub_world import StubWorld
from .months.world import HEAD

PROGRESS_S, ANSWER_S, END_S = 90.0, 180.0, 600.0
Worlds = RealWorld | StubWorld


@dataclass
class Tally:
    """What happened in one world."""

    hurt: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    away_s: dict[str, list[float]] = field(default_factory=dict)
    head_back_s: list[float] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    stalled: int = 0  # faults after which no job went on in time
    lost: int = 0
    duplicated: int = 0
    wrong: float = 0.0
    jobs: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=at_least(1), default=200, help="in each world")
    parser.add_argument("--heads", type=at_least(0), default=20, help="of them, deaths of the whole head")
    parser.add_argument("--jobs", type=at_least(1), default=10, help="that train at a time")
    parser.add_argument("--only", choices=["real", "stub"])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tallies: dict[str, Tally] = {}
    for name in ("real", "stub") if args.only is None else (args.only,):
        dice = random.Random(args.seed)
        with _world(name, args.jobs, dice) as world:
            tallies[name] = hurt(world, args.faults, args.heads, dice)
    figures: dict[str, float | int | str | None] = {}
    for name, tally in tallies.items():
        _show(name, tally)
        figures |= {f"{key}_{name}": value for key, value in _figures(tally).items()}
    finish("chaos", figures, f"seed {args.seed}")


@contextmanager
def _world(name: str, jobs: int, dice: random.Random) -> Iterator[Worlds]:
    with tempfile.TemporaryDirectory(prefix=MARK, ignore_cleanup_errors=True) as folder:
        where = Path(folder)
        world: Worlds = (
            RealWorld(where, counting(where / "job"), jobs, MARK, dice)
            if name == "real"
            else StubWorld(where, dice)
        )
        try:
            yield world
        finally:
            world.close()


def hurt(world: Worlds, faults: int, heads: int, dice: random.Random) -> Tally:
    """Let faults happen, and count what they do."""
    tally, absence = Tally(), Absence(world.settings.state_dir)
    try:
        for at, kind in enumerate(_order(world.kinds, faults, heads, dice)):
            world.refill()
            tally.stalled += not world.moves(PROGRESS_S)
            began_s = time.monotonic()
            there = world.apply(kind)
            absence.until_answered(time.monotonic(), ANSWER_S)
            away_s = absence.since(began_s)
            (tally.hurt if there else tally.missed)[kind] += 1
            (tally.head_back_s if kind == HEAD else tally.away_s.setdefault(kind, [])).append(away_s)
            tally.findings += [f"{kind}: {one.text}" for one in store_care.diagnose(None, world.settings).findings]
            print(f"{at + 1:4d} {kind}{'' if there else ' (nothing there)'}: away {away_s:.1f} s", flush=True)
    finally:
        absence.close()
    results = world.finish(END_S)
    tally.jobs = len(results)
    tally.lost = sum(one["phase"] != "succeeded" for one in results)
    tally.duplicated = world.stored() - len(set(world.submitted))
    tally.wrong = sum(float(str(one.get("wrong", 0.0))) for one in results)
    for one in results:
        if one["phase"] != "succeeded":
            print(f"lost: {one}")
    return tally


def _order(kinds: tuple[str, ...], faults: int, heads: int, dice: random.Random) -> list[str]:
    """Return kinds as often as each other in a seeded order, and deaths of the head evenly among them."""
    others = [kinds[at % len(kinds)] for at in range(faults - heads)]
    dice.shuffle(others)
    for at in range(heads):
        others.insert(round((at + 1) * faults / (heads + 1)), HEAD)
    return others


def _figures(tally: Tally) -> dict[str, float | int]:
    away = [one for some in tally.away_s.values() for one in some]
    return {
        "faults": tally.hurt.total(),
        "jobs": tally.jobs,
        "jobs_lost": tally.lost,
        "jobs_duplicated": tally.duplicated,
        "samples_wrong": int(tally.wrong),
        "doctor_findings": len(tally.findings),
        "stalled": tally.stalled,
        "absence_p99_s": _quantile(away, 0.99),
        "head_back_p95_s": _quantile(tally.head_back_s, 0.95),
    }


def _show(name: str, tally: Tally) -> None:
    kinds = [*tally.away_s, *([HEAD] if tally.head_back_s else [])]
    table(
        f"Faults in the {name} world: {tally.jobs} jobs, {tally.lost} lost, {tally.duplicated} duplicated",
        ["fault", "happened", "nothing there", "away, s: median", "p99"],
        [
            [kind, tally.hurt[kind], tally.missed[kind], _quantile(away, 0.5), _quantile(away, 0.99)]
            for kind in kinds
            for away in [tally.head_back_s if kind == HEAD else tally.away_s[kind]]
        ],
    )
    print("\n".join(dict.fromkeys(tally.findings)))


def _quantile(seconds: list[float], share: float) -> float:
    return round(float(np.quantile(seconds, share)), 2) if seconds else float("nan")


if __name__ == "__main__":
    main()
