"""Scripts as people write them: alone, under torchrun, and as managed groups that are grown, moved and broken.

    python -m benchmarks.real_scripts [--only NAME,…] [--scenario NAME,…] [--jobs 2]

Every script of `scripts/real/` is run in every scenario and compared with its run alone: parameters within float32
round-off, each sample once, metrics as alone. `right`: so it is. `refused`: one sentence, at the latest at the
first step. `WRONG`, `HANG`: anything else, and nobody going on for half a minute. What the head of a script says
that it expects is compared, too. Figures count scripts: one is right only if it is in all scenarios.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from .arguments import at_least, some_of
from .harness import finish, table
from .real.heads import HANG, REFUSED, RIGHT, WRONG, scripts
from .real.trials import ALL_SCENARIOS, Trials, Verdict


def tried(names: Sequence[str], scenarios: Sequence[str], jobs: int, folder: Path) -> Iterable[Verdict]:
    """Yield verdicts of each script in each scenario, as they come; `jobs` runs are made at a time."""
    trials = {name: Trials(scripts()[name], folder) for name in names}
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(trials[name].verdict, scenario) for name in names for scenario in scenarios]
        for done in as_completed(waiting):
            yield done.result()


def of_script(verdicts: Iterable[Verdict]) -> str:
    """Return the worst outcome of a script's scenarios."""
    found = {verdict.outcome for verdict in verdicts}
    return next(outcome for outcome in (HANG, WRONG, REFUSED, RIGHT) if outcome in found)


def show(verdicts: Mapping[str, Mapping[str, Verdict]], scenarios: Sequence[str]) -> None:
    rows = [[name, *(by[scenario].outcome for scenario in scenarios)] for name, by in verdicts.items()]
    table("What scripts did", ["script", *scenarios], rows)
    refused = [v for by in verdicts.values() for v in by.values() if v.outcome == REFUSED]
    for sentence in dict.fromkeys(verdict.sentence for verdict in refused):
        where = [f"{v.script} ({v.scenario})" for v in refused if v.sentence == sentence]
        print(f"refused: {sentence}\n    {', '.join(where)}")
    for by in verdicts.values():
        for verdict in by.values():
            if not verdict.as_expected:
                print(f"{verdict.script}, {verdict.scenario}: {verdict.outcome}, expected {verdict.expected}")
                for problem in verdict.problems:
                    print("    " + problem.replace("\n", "\n    "))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=some_of(list(scripts())), help="names of scripts, with commas between them")
    parser.add_argument("--scenario", type=some_of(ALL_SCENARIOS), help="names of scenarios")
    parser.add_argument("--jobs", type=at_least(1), default=2, help="runs beside each other")
    parser.add_argument("--keep", type=Path, help="a folder for what the runs write")
    arguments = parser.parse_args()
    names = arguments.only or list(scripts())
    scenarios = arguments.scenario or list(ALL_SCENARIOS)
    found: dict[str, dict[str, Verdict]] = {name: {} for name in names}
    started_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="real-") as scratch, Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("runs", total=len(names) * len(scenarios))
        for verdict in tried(names, scenarios, arguments.jobs, arguments.keep or Path(scratch)):
            found[verdict.script][verdict.scenario] = verdict
            bar.advance(task)
            if not verdict.as_expected:
                bar.console.print(f"{verdict.script}, {verdict.scenario}: {verdict.outcome}", highlight=False)
    show(found, scenarios)
    outcomes = [of_script(by.values()) for by in found.values()]
    unexpected = sum(not verdict.as_expected for by in found.values() for verdict in by.values())
    figures = {
        "right": outcomes.count(RIGHT),
        "refused": outcomes.count(REFUSED),
        "wrong": outcomes.count(WRONG),
        "hangs": outcomes.count(HANG),
        "scripts": len(outcomes),
        "unexpected": unexpected,
        "wall_s": round(time.perf_counter() - started_s, 1),
    }
    finish("real_scripts", figures)
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main())
