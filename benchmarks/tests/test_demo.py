"""The demo does not claim what did not happen, needs no clock, and says which job did not end."""

import io

from coadapt.benchmarks.demo import Run, figures
from coadapt.examples.demo import carried
from coadapt.examples.demo.cast import ROLES, comes, finished, pace, reached
from coadapt.examples.demo.phenomena import (
    ADAPTED,
    MIGRATION,
    PROFILING,
    SCALE_DOWN,
    SCALE_UP,
    TARGETS,
    contended,
    promises,
)
from coadapt.examples.demo.stage import Ran
from coadapt.examples.demo.view import View
from rich.console import Console

EVERYTHING = {PROFILING, SCALE_UP, SCALE_DOWN, MIGRATION, ADAPTED}
OTHERS = {SCALE_DOWN, MIGRATION, ADAPTED}


def interval(
    job: str, start: float, end: float | None, gpu_type: str, gpus: int, batch: int = 32, lr: float = 0.1
) -> dict:
    fields = {"job_id": job, "phase": "running", "start_s": start, "end_s": end, "gpu_type": gpu_type}
    return fields | {"gpus": gpus, "batch_size": batch, "lr": lr}


def row(number: int, phase: str, gpus: int = 0) -> dict:
    ended = 100.0 + number if phase in ("succeeded", "failed") else None
    return {
        "id": f"job-{number}",
        "phase": phase,
        "status": phase,
        "reason": "",
        "wait_reason": None,
        "gpus": gpus,
        "gpu_type": "t4" if gpus else None,
        "emulated": True,
        "submitted_s": float(number),
        "started_s": None,
        "finished_s": ended,
        "batch_size": None,
        "lr": None,
        "steps": 0,
        "epoch": None,
        "epochs": None,
        "fraction": 0.0,
        "ends_s": None,
        "has_target": True,
        "metrics": {},
        "restarts": 1,
    }


def seen(timeline: list) -> dict[str, bool]:
    return {promise.what: promise.seen is not None for promise in promises(timeline, 0.0)}


def test_nothing_is_seen_in_a_job_that_never_changes() -> None:
    assert not any(seen([interval("a", 0, 100, "t4", 2)]).values())


def test_each_phenomenon_is_seen_where_it_is() -> None:
    grown = [interval("a", 0, 10, "t4", 1), interval("a", 10, 20, "t4", 2, 64, 0.2)]
    assert seen(grown)[SCALE_UP]
    assert seen(grown)[ADAPTED]
    assert not seen(grown)[MIGRATION]
    assert seen([interval("a", 0, 10, "t4", 1), interval("a", 10, 20, "a100", 1)])[MIGRATION]
    assert seen([interval("a", 0, 10, "t4", 1) | {"phase": "profiling"}])[PROFILING]


def test_a_shrink_counts_only_when_another_job_took_the_gpus() -> None:
    shrunk = [interval("a", 0, 10, "t4", 4), interval("a", 10, 20, "t4", 2)]
    assert not seen(shrunk)[SCALE_DOWN]
    assert not contended(shrunk[1], [*shrunk, interval("b", 12, 20, "a100", 2)])
    assert seen([*shrunk, interval("b", 12, 20, "t4", 2)])[SCALE_DOWN]


def test_a_batch_size_without_its_learning_rate_is_no_adaptation() -> None:
    same_lr = [interval("a", 0, 10, "t4", 1), interval("a", 10, 20, "t4", 1, 64)]
    assert not seen(same_lr)[ADAPTED]


def test_a_job_counts_only_at_its_target() -> None:
    spec = next(role for role in ROLES if role.example == "image_classifier").spec()
    assert reached(spec, {"phase": "succeeded", "metrics": {"accuracy": 0.99}})
    assert not reached(spec, {"phase": "succeeded", "metrics": {"accuracy": 0.5}})
    assert not reached(spec, {"phase": "succeeded", "metrics": {}})
    assert not reached(spec, {"phase": "failed", "metrics": {"accuracy": 0.99}})


def test_six_jobs_of_four_kinds() -> None:
    assert len(ROLES) == 6
    assert len({role.example for role in ROLES}) == 4


def test_others_come_once_the_first_has_grown_however_long_that_takes() -> None:
    assert comes([], EVERYTHING) == (ROLES[0], 1)
    measured = row(0, "profiling", gpus=3)
    assert comes([measured], EVERYTHING) is None
    assert comes([row(0, "running", gpus=1)], EVERYTHING - {PROFILING}) is None
    assert comes([row(0, "running", gpus=2)], EVERYTHING - {PROFILING}) is None  # of another type: it has moved
    assert comes([row(0, "running", gpus=2)], OTHERS) == (ROLES[1], 1)


def test_the_demo_goes_on_without_the_first_where_it_never_grows() -> None:
    assert comes([row(0, "succeeded")], EVERYTHING) == (ROLES[1], 1)


def test_no_more_than_two_jobs_are_measured_at_once() -> None:
    three = [row(0, "running", 2), row(1, "profiling", 3), row(2, "profiling", 3)]
    assert comes(three, OTHERS) is None
    assert comes([*three[:2], row(2, "queued")], OTHERS) == (ROLES[3], 1)


def test_all_play_again_where_something_is_missing_and_all_went_well() -> None:
    ended = [row(i, "succeeded") for i in range(6)]
    assert finished(ended, set())
    assert comes(ended, {MIGRATION}) == (ROLES[0], 2)
    assert not finished(ended, {MIGRATION})
    assert comes([*ended, row(6, "running", 2)], {MIGRATION}) == (ROLES[1], 2)
    assert finished([row(i, "succeeded") for i in range(18)], {MIGRATION})
    assert finished([*ended[:5], row(5, "failed")], {MIGRATION})
    assert ROLES[0].spec(act=2).name != ROLES[0].spec().name


def test_gpus_are_as_fast_as_the_machine_carries() -> None:
    assert pace(64) == pace(1) == 1
    assert pace(0.8) == 0.8
    assert pace(0.01) == 0.5  # else it never ends
    assert ROLES[0].spec(pace=0.5).emulation.time_scale == ROLES[0].time_scale / 2


def test_some_work_is_carried() -> None:
    assert carried.cores() > 0


def test_a_job_that_has_not_ended_is_named_and_no_target_is_claimed() -> None:
    rows = [row(0, "running", 1)]
    ran = Ran({"job-0": ROLES[0].spec()}, rows, 0.0, [], [], [])
    assert ran.unfinished == rows
    assert {promise.what: promise.seen for promise in ran.promises}[TARGETS] is None


def test_elsewhere_than_in_a_terminal_each_change_is_a_line(capsys) -> None:
    with View() as view:
        view.update(1.0, [row(0, "running", 1)], promises([], 0.0))
        grown = [interval("job-0", 0, 2, "t4", 1), interval("job-0", 2, None, "t4", 2)]
        for elapsed_s in (2.0, 3.0):
            view.update(elapsed_s, [row(0, "running", 2)], promises(grown, 0.0))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "1 s job-0: running",
        "1 s job-0: 1 t4 (emulated)",
        "2 s job-0: 1 t4 (emulated) -> 2 t4 (emulated)",
        "2 s seen: scale-up",
    ]


def test_a_terminal_shows_jobs_and_what_was_seen_as_they_change() -> None:
    screen = io.StringIO()
    with View(Console(file=screen, force_terminal=True, width=150, color_system=None)) as view:
        grown = [interval("job-0", 0, 2, "t4", 1), interval("job-0", 2, None, "t4", 2)]
        view.update(75.0, [row(0, "running", 2)], promises(grown, 0.0))
    shown = [" ".join(line.split()) for line in screen.getvalue().splitlines()]
    assert shown[0].endswith("1m15s since the first job came")
    assert any(line.startswith("job-0 running 2 t4 (emulated)") for line in shown)
    assert "seen scale-up 2 s: job-0 1 -> 2 t4" in shown
    assert "... migration between GPU types" in shown


def test_the_benchmark_counts_the_least_of_its_runs_and_no_failed_one_as_whole() -> None:
    whole = dict.fromkeys(EVERYTHING | {TARGETS}, "3 s: seen")
    good = Run(4, 0, 200.0, {"promises": whole, "jobs": [row(0, "succeeded")], "cores": 1.0})
    assert figures([good])["promises_kept_busy_4"] == 6
    late = Run(4, 1, 900.0, good.told)
    broken = Run(0, 1, 1.0, {})
    found = figures([good, late])
    assert (found["promises_kept_busy_4"], found["exit_0_busy_4"], found["wall_s_busy_4"]) == (5, 1, 900.0)
    assert (figures([broken])["promises_kept"], figures([broken])["wall_s"]) == (0, 1.0)
