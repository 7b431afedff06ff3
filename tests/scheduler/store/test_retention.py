"""What is old or too much goes, the oldest first; what somebody needs stays. Pure decisions."""

from coadapt.scheduler.store.retention import (
    DAY_S,
    GIB,
    EndedJob,
    JobFiles,
    PackageFile,
    files_to_remove,
    jobs_to_remove,
    packages_to_remove,
)

NOW = 1000 * DAY_S


def ended(*days_ago: float) -> list[EndedJob]:
    return [EndedJob(f"a-{at}", at, NOW - days * DAY_S) for at, days in enumerate(days_ago, start=1)]


def test_jobs_go_by_age() -> None:
    assert [job.id for job in jobs_to_remove(ended(400, 366, 364), 3, (), 365, None, NOW)] == ["a-1", "a-2"]
    assert jobs_to_remove(ended(400, 366), 2, (), None, None, NOW) == []


def test_the_oldest_jobs_go_where_there_are_too_many() -> None:
    assert [job.id for job in jobs_to_remove(ended(9, 8, 7), 12, (), 365, 10, NOW)] == ["a-1", "a-2"]


def test_a_job_from_which_others_start_stays() -> None:
    assert [job.id for job in jobs_to_remove(ended(400, 399), 2, {"a-1"}, 365, 1, NOW)] == ["a-2"]


def test_files_go_by_age_and_then_until_the_rest_fits() -> None:
    files = [JobFiles(f"a-{days}", NOW - days * DAY_S, int(10 * GIB)) for days in (1, 40, 5, 20)]
    assert [one.job_id for one in files_to_remove(files, (), 30, None, NOW)] == ["a-40"]
    assert [one.job_id for one in files_to_remove(files, (), 30, 15, NOW)] == ["a-40", "a-20", "a-5"]
    assert [one.job_id for one in files_to_remove(files, {"a-40"}, 30, 25, NOW)] == ["a-20", "a-5"]
    assert files_to_remove(files, (), None, None, NOW) == []


def test_packages_go_that_no_job_names_and_nobody_asked_for() -> None:
    found = [PackageFile("old", 8 * DAY_S, 5), PackageFile("named", 99 * DAY_S, 5), PackageFile("new", 60.0, 5)]
    assert [one.name for one in packages_to_remove(found, {"named"}, 7)] == ["old"]
