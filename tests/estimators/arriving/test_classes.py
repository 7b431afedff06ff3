"""The class of a job's length: by its experiment, else by its team and width, else unknown."""

from __future__ import annotations

from coadapt.estimators.arriving.classes import LengthClasses
from coadapt.estimators.foretold import Foretold
from coadapt.estimators.job_history import EndedJob, SubmittedJob

MIN_S = 60.0
WINDOWS_S = (300.0, 3600.0, 43_200.0)


def job(name: str = "", gpus: int = 1, team: str = "vision", tag: str = "") -> SubmittedJob:
    return SubmittedJob("j", "ada", name, "", gpus, 0.0, 0.0, team=team, tag=tag)


def classes(*ended: tuple[SubmittedJob, float]) -> LengthClasses:
    """Return what is known after jobs have taken so many minutes."""
    found = LengthClasses(WINDOWS_S)
    for one, minutes in ended:
        found.ended(EndedJob(one, MIN_S * minutes, MIN_S * minutes))
    return found


def band(found: Foretold | None) -> tuple[float, float, str]:
    assert found is not None
    return found.low_s / MIN_S, found.high_s / MIN_S, found.basis


def test_jobs_of_the_experiment_tell_most_then_those_of_team_and_width() -> None:
    one, other = job(tag="ablation"), job(tag="sweep")
    known = classes(*[(one, 3.0)] * 3, *[(other, 400.0)] * 4)
    assert band(known.of(one)) == (1 / MIN_S, 5.0, "3 earlier jobs of its experiment")
    assert band(known.of(other)) == (60.0, 720.0, "4 earlier jobs of its experiment")
    assert band(known.of(job(tag="new")))[2] == "7 earlier jobs of its team and number of GPUs"


def test_without_an_experiment_the_name_that_its_owner_gave_tells() -> None:
    known = classes(*[(job("eval"), 3.0)] * 3, *[(job("train"), 400.0)] * 3)
    assert band(known.of(job("eval"))) == (1 / MIN_S, 5.0, "3 earlier jobs of its owner and name")


def test_too_few_jobs_and_other_teams_and_widths_tell_nothing() -> None:
    known = classes(*[(job(), 3.0)] * 2)
    assert known.of(job()) is None
    known = classes(*[(job(), 3.0)] * 3)
    assert known.of(job()) is not None
    assert known.of(job(gpus=2)) is None
    assert known.of(job(team="speech")) is None


def test_one_long_job_in_five_makes_the_class_longer() -> None:
    known = classes(*[(job(), 3.0)] * 8, *[(job(), 50.0)] * 2)
    assert band(known.of(job()))[:2] == (1 / MIN_S, 60.0)


def test_classes_include_their_upper_bound_and_there_is_none_beyond_the_last() -> None:
    assert band(classes(*[(job(), 5.0)] * 3).of(job()))[1] == 5.0
    assert band(classes(*[(job(), 5.01)] * 3).of(job()))[:2] == (5.0, 60.0)
    assert classes(*[(job(), 720.01)] * 3).of(job()) is None


def test_the_middle_of_all_is_typical() -> None:
    known = classes((job(), 1.0), (job(), 2.0), (job(), 9.0))
    assert known.typical_s(job()) == 2 * MIN_S
    assert known.typical_s(job(gpus=4)) is None
