"""What can be wrong with forecasts of teams' jobs, each with the one sentence that its user reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.estimators import learned_file
from coadapt.estimators.arriving.model import fit
from coadapt.estimators.arriving.past import TeamPast
from coadapt.estimators.job_history import StartedJob, SubmittedJob
from coadapt.scheduler.services.team_load import WINDOWS_S, TeamLoadService

from tests.support.answers import Both, Simulated, Told, Way

DAY_S = 86_400.0
NAME = "team_load"
OPTIONS = "recent, days, learned, windows_s, least_days, refit_h, least_recall, seed"


def option(name: str, value: str, wanted: str, shown: str = "") -> tuple[str, Way, str]:
    """Return the row of one option."""
    return (
        f"{NAME}: {name} {value}",
        Both(f"--service {NAME} --service-option '{NAME}.{name}={value}'"),
        f"--service-option: service {NAME}: {name}: {shown or value} is not accepted{wanted}",
    )


@cache
def model() -> dict[str, Any]:
    """Return the document of a model of a team that submits every 200 s from 9 to 18 o'clock."""
    times = np.arange(0.0, 6 * DAY_S, 200.0)
    of_day, none = times % DAY_S / 3600, np.empty(0)
    found = fit(
        [TeamPast(times[(of_day >= 9) & (of_day < 18)], none, none, none, none)], 0.0, 6 * DAY_S, WINDOWS_S
    )
    assert found is not None
    return dict(found.to_json())


@dataclass(frozen=True)
class ModelFile:
    """A model's file in the state directory, which a service that starts reads. spoil: what is done to it."""

    spoil: Callable[[Path], object]
    how: str = "coadapt up --service team_load, with learned/team_load.json"

    def answer(self, folder: Path) -> str:
        path = folder / f"{NAME}.json"
        learned_file.write(path, NAME, model(), 0.0)
        self.spoil(path)
        try:
            document, _ = learned_file.read(path, NAME)
            TeamLoadService().read(document)
        except ValueError as error:
            return str(error)
        return ""


def with_model(**changes: object) -> Callable[[Path], object]:
    return lambda path: learned_file.write(path, NAME, {**model(), **changes}, 0.0)


def of_other_version(path: Path) -> None:
    path.write_text(path.read_text().replace('"version": 1', '"version": 9', 1))


SUBMITTED = SubmittedJob("new", "ann", "train", "", 1, 0.0, 1500.0)
RISE = "windows above 0 s that rise are accepted"

# What is wrong, how it is reached, and the sentence.
BAD_TEAM_LOAD: tuple[tuple[str, Way, str], ...] = (
    option("recent", "0", ", must be a whole number of at least 1"),
    option("days", "0", ", must be a number above 0"),
    option("least_days", "0", ", must be a number above 0"),
    option("refit_h", "-1", ", must be a number above 0"),
    option("least_recall", "1.5", ", must be a number from 0 to 1"),
    option("learned", "maybe", ", must be true or false", "'maybe'"),
    option("seed", "-1", ", must be a whole number of at least 0"),
    option("windows_s", "[300, 60]", f": 60 follows 300; {RISE}"),
    option("windows_s", "[0, 60]", f": 0 follows 0; {RISE}"),
    option("windows_s", "[]", ", must be a list with at least 1 entry"),
    (
        "an unknown option of team_load",
        Both(f"--service {NAME} --service-option {NAME}.recall=1"),
        f"--service-option: service {NAME}: option 'recall' is unknown; accepted: {OPTIONS}",
    ),
    (
        "jobs to come that are foretold in an unknown way",
        Simulated("--foresees guessed"),
        "--foresees: 'guessed'; accepted: perfect, learned, always, random, nothing",
    ),
    (
        "jobs of teams that are foretold without teams",
        Simulated("--foresees learned"),
        "--foresees: tells of the jobs of teams, so it goes with --shares",
    ),
    (
        "a job that starts before it was submitted",
        Told("a service, told of a start", lambda: StartedJob(SUBMITTED, 1000.0)),
        "started_s: 1000.0 of job new is not accepted, must be finite and 1500.0 or later, when it was submitted",
    ),
    (
        "a model of arrivals that is torn",
        ModelFile(lambda path: path.write_text("{")),
        "{dir}/team_load.json: is torn or no learned model: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
    ),
    (
        "a model of arrivals that was changed",
        ModelFile(
            lambda path: path.write_text(path.read_text().replace("learning_rate: 0.05", "learning_rate: 0.5"))
        ),
        "{dir}/team_load.json: is torn or was changed, its digest differs",
    ),
    (
        "a model of another service",
        ModelFile(lambda path: learned_file.write(path, "arrivals", {"models": []}, 0.0)),
        "{dir}/team_load.json: holds 'arrivals' of version 1, and 'team_load' of version 1 is accepted",
    ),
    (
        "a model of arrivals of another version",
        ModelFile(of_other_version),
        "{dir}/team_load.json: holds 'team_load' of version 9, and 'team_load' of version 1 is accepted",
    ),
    (
        "a model of arrivals of other features",
        ModelFile(with_model(features=["hour", "weekday"])),
        "team_load: the model is of other features; it is of another version of coadapt",
    ),
    (
        "a model of arrivals of other windows",
        ModelFile(with_model(windows=[])),
        "team_load: the model is of windows of none s, and 300, 3600, 43200 are wanted",
    ),
)
