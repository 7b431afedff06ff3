"""Will jobs of a team arrive within 5, 60, 720 minutes: on Venus in September 2020, beside the published Table 20.

    python -m benchmarks.anticipatory_predictors [--days 30] [--learned-days 12]

Fitted to the first 12 days and asked every 5 min of the rest. Ends are those of strict order in each team, as
features of ends tell of the schedule that runs.

`<min>/<features>/precision`, `recall`, `f`: of moments before arrivals; features are added from set to set.
`<min>/f`, `precision`, `recall`: of the best set. `<min>/fit_s`: of all features, on one core.
`<min>/by_pool/<team>/f`, `<min>/by_pool/median_f`: of each team, all features.
`<min>/by_hour/<h>/f`: of hours of the day.
`<min>/by_hour/median_f`, `above_0.9_percent`: of single hours of a team in which jobs came.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from coadapt.estimators.arriving.features import DAY_S, HOUR_S, SETS, arrive, features, only
from coadapt.estimators.arriving.model import STEP_S, fit_one, moments
from coadapt.estimators.arriving.past import TeamPast
from coadapt.estimators.job_history import EndedJob, StartedJob, SubmittedJob
from coadapt.scheduler.services.host import FitAtOnce, ServiceHost
from coadapt.scheduler.services.team_load import WINDOWS_S, TeamLoadOptions, TeamLoadService
from coadapt.simulator.engine.outcome import Outcome

from .anticipatory_helios import CASES, LEARNED_DAYS, REFERENCE, SIZES, TRACE, simulated, venus
from .arguments import at_least
from .harness import finish, needs, table

# Table 20 of the paper: precision, recall and F by minutes and set.
PUBLISHED: Mapping[int, Mapping[str, tuple[float, float, float]]] = {
    5: {"periodic": (0.22, 0.74, 0.34), **dict.fromkeys(("arrivals", "ends", "due"), (0.34, 0.87, 0.49))},
    60: dict.fromkeys(SETS, (0.62, 0.79, 0.69)),
    720: {"periodic": (0.83, 0.88, 0.85), **dict.fromkeys(("arrivals", "ends", "due"), (0.84, 0.89, 0.86))},
}
Bools = np.ndarray


def facts_of(outcome: Outcome) -> Iterator[tuple[SubmittedJob, float, float]]:
    """Yield what became of jobs: each with its start and end, in seconds since 1970."""
    jobs = outcome.workload
    began = jobs.began_s
    for i, id in enumerate(jobs.ids):
        job = SubmittedJob(
            id, jobs.users[i], jobs.names[i], "", int(jobs.gpus[i]), 0.0, began + float(jobs.submit_s[i]),
            team=jobs.virtual_clusters[i],
        )  # fmt: skip
        start_s = max(began + float(outcome.started_s[i]), job.submitted_s)
        yield job, start_s, max(began + float(outcome.finished_s[i]), start_s)


def pasts_of(outcome: Outcome) -> dict[str, TeamPast]:
    """Return what the service knows of each team once all jobs have ended."""
    service = TeamLoadService(TeamLoadOptions(learned=False, days=1000.0))
    host = ServiceHost({"team_load": service}, FitAtOnce())
    end_s = 0.0
    for job, start_s, ended_s in facts_of(outcome):
        host.submitted(job)
        host.started(StartedJob(job, start_s))
        host.ended(EndedJob(job, ended_s, ended_s - start_s))
        end_s = max(end_s, ended_s)
    host.advance(end_s)
    return dict(sorted(service.pasts().items()))


def scores(came: Bools, said: Bools) -> dict[str, float]:
    """Return precision, recall and F of what was said; nan: there was nothing to be said."""
    right, asked, told = (np.float64(some.sum()) for some in (came & said, came, said))
    with np.errstate(invalid="ignore"):
        return {
            "precision": float(right / told),
            "recall": float(right / asked),
            "f": float(2 * right / (asked + told)),
        }


def of_single_hours(came: Bools, said: Bools, at_s: np.ndarray) -> np.ndarray:
    """Return F of the hours of each team in which jobs came; came, said: (teams, moments)."""
    hours = (at_s // HOUR_S).astype(int)
    hours -= hours[0]
    right, asked, told = (
        np.array([np.bincount(hours, row) for row in some]) for some in (came & said, came, said)
    )
    return (2 * right / (asked + told).clip(min=1))[asked > 0]


def figures_of(pasts: Mapping[str, TeamPast], learned_days: float) -> dict[str, float]:
    """Return the figures of all windows and sets, and print them."""
    listed, figures = list(pasts.values()), dict[str, float]()
    since_s = min(float(past.submitted_s[0]) for past in listed)
    until_s, end_s = since_s + DAY_S * learned_days, max(float(past.submitted_s[-1]) for past in listed)
    rows, hourly = [], []
    for window_s in WINDOWS_S:
        minutes = round(window_s / 60)
        at_s = np.arange(until_s, end_s - window_s, STEP_S)
        came = np.array([arrive(past, at_s, window_s) for past in listed])
        known = np.array([features(past, at_s, window_s) for past in listed])
        best = {"f": 0.0}
        for name, names in SETS.items():
            began = time.perf_counter()
            trees = fit_one(listed, moments(since_s, until_s - window_s, len(listed)), window_s, names)
            took_s = time.perf_counter() - began
            if trees is None:
                raise SystemExit(f"{minutes} min: all moments of {learned_days:g} days came out alike")
            said = np.array([trees.predict(only(of, names)) >= 0.5 for of in known])
            found = scores(came, said)
            best = max(best, found, key=lambda one: one["f"])
            figures |= {f"{minutes}/{name}/{key}": value for key, value in found.items()}
            rows.append([f"{minutes} min, {name}", *found.values(), *PUBLISHED[minutes][name]])
        figures |= {f"{minutes}/{key}": value for key, value in best.items()}
        figures[f"{minutes}/fit_s"] = took_s
        of_teams = {team: scores(c, s)["f"] for team, c, s in zip(pasts, came, said, strict=True)}
        figures |= {f"{minutes}/by_pool/{team}/f": f for team, f in of_teams.items() if not np.isnan(f)}
        figures[f"{minutes}/by_pool/median_f"] = float(np.nanmedian(list(of_teams.values())))
        of_day = (at_s % DAY_S // HOUR_S).astype(int)
        hours = [scores(came[:, of_day == hour], said[:, of_day == hour])["f"] for hour in range(24)]
        figures |= {f"{minutes}/by_hour/{hour}/f": f for hour, f in enumerate(hours)}
        single = of_single_hours(came, said, at_s)
        figures[f"{minutes}/by_hour/median_f"] = float(np.median(single))
        figures[f"{minutes}/by_hour/above_0.9_percent"] = 100 * float((single > 0.9).mean())
        hourly.append([f"{minutes} min", float(np.median(single)), *hours[::3]])
    table("moments before arrivals", ["", "precision", "recall", "F", "published", "recall", "F"], rows)
    table("F of single hours, and at 0, 3, … o'clock", ["", "median", *map(str, range(0, 24, 3))], hourly)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--learned-days", type=at_least(3), default=round(LEARNED_DAYS))
    options = parser.parse_args()
    needs(TRACE, SIZES)
    teams = venus(options.days, 0, 1.0)
    with tempfile.TemporaryDirectory() as name:
        reference, _ = simulated(teams, CASES[REFERENCE], Path(name))
    figures = figures_of(pasts_of(reference), options.learned_days)
    finish("anticipatory_predictors", {key: round(value, 4) for key, value in figures.items()})


if __name__ == "__main__":
    main()
