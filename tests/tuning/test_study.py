"""A study finds the best values, survives what happens to it, and asks for nothing twice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from coadapt.tuning.actions import Cancel, GroupState, Keep, Submit
from coadapt.tuning.state import RunState, StudyState
from coadapt.tuning.study import decide

from tests.support.played_studies import Cluster, near, study_of

ALGORITHMS: list[Any] = ["random", "tpe", "halving", "hyperband", {"asha": {"grace": 1, "reduction": 3}}]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
@pytest.mark.parametrize("shrink", [1, 8])
@pytest.mark.parametrize("merge", [True, False])
def test_every_algorithm_finds_the_best_of_its_trials(algorithm: Any, shrink: int, merge: bool) -> None:
    cluster = Cluster(study_of(algorithm=algorithm, shrink=shrink, trials=30), merge=merge)
    found = cluster.play()
    assert found.values is not None
    best = max(cluster.state.trials, key=lambda values: near(values, 1, 9))
    assert found.values == best
    assert found.metric == near(best, 1, 9)
    assert len(cluster.state.trials) == 30


def test_a_decision_is_taken_again_after_a_crash_under_the_same_names() -> None:
    cluster = Cluster(study_of())
    cluster.now_s = 5.0

    state, asked = decide(cluster.study, StudyState(), cluster.seen())
    again, asked_again = decide(cluster.study, StudyState.from_json(state.to_json()), cluster.seen())
    assert asked == asked_again
    assert asked
    assert again == state


def test_a_study_killed_at_any_decision_finds_the_same() -> None:
    plain, killed = Cluster(study_of(trials=12)), Cluster(study_of(trials=12))
    plain.play()
    for at in range(200):
        if at % 3 == 0:  # killed once its state was stored, before it asked for anything
            killed.state, _ = decide(killed.study, killed.state, killed.seen())
        killed.decide()
        if killed.finish is not None:
            break
        killed.tick()
    assert plain.finish is not None
    assert killed.finish is not None
    assert killed.finish.values == plain.finish.values
    assert len(killed.jobs) == len(plain.jobs)


def test_worse_trials_leave_their_group_at_a_rung_and_the_others_go_on() -> None:
    cluster = Cluster(study_of(trials=9, shrink=1), gpus=1, merge=False)
    cluster.decide()
    cluster.tick()
    (keep,) = [one for one in cluster.decide() if isinstance(one, Keep)]
    assert len(keep.runs) == 3
    assert cluster.decide() == []  # it was done
    stopped = [run for run in cluster.state.runs.values() if run.state is RunState.STOPPED]
    assert {run.epoch for run in stopped} == {1}


def test_batch_sizes_are_never_mixed_in_a_group() -> None:
    space = {"lr": {"log": [0.001, 1.0]}, "batch_size": {"choice": [64, 128]}}
    cluster = Cluster(study_of(space=space, trials=20, algorithm="random"), gpus=4)
    cluster.play()
    for submit in cluster.submits():
        assert len({values["batch_size"] for values in submit.runs.values()}) == 1


def test_groups_are_as_large_as_memory_says_and_small_where_it_was_not_measured() -> None:
    assert max(len(one.runs) for one in played(memory_gib=(1.0, 2.0, 6.0)).submits()) == 5
    assert max(len(one.runs) for one in played(memory_gib=None).submits()) == 16
    assert max(len(one.runs) for one in played(fuse=3).submits()) == 3
    assert {len(one.runs) for one in played(fuse=False).submits()} == {1}


def played(memory_gib: tuple[float, float, float] | None = (1.0, 1.01, 10.0), **fields: Any) -> Cluster:
    cluster = Cluster(
        study_of(trials=32, algorithm="random", epochs=3, **fields), gpus=1, memory_gib=memory_gib, merge=False
    )
    cluster.play()
    return cluster


def test_what_cannot_be_fused_runs_apart_and_the_reason_is_kept() -> None:
    why = "CannotFuse: torch.nonzero has no rule for several trials"
    cluster = Cluster(study_of(trials=4, epochs=3), fails=lambda one: why if one.fused else "")
    found = cluster.play()
    assert found.values == max(cluster.state.trials, key=lambda values: near(values, 1, 3))
    assert cluster.state.unfused == why
    assert all(not one.fused for one in cluster.submits()[2:])


def test_a_trial_that_fails_ends_no_other() -> None:
    def fails(submit: Submit) -> str:
        return "ValueError: trial 5" if 5 in submit.runs and submit.shrink == 8 else ""

    cluster = Cluster(study_of(trials=12, epochs=3, algorithm="random"), gpus=2, fails=fails)
    cluster.play()
    failed = {key for key, run in cluster.state.runs.items() if run.state is RunState.FAILED}
    assert failed == {5}
    assert cluster.state.runs[5].message == "ValueError: trial 5"


def test_a_group_that_needs_too_much_memory_is_halved_and_none_is_as_large_again() -> None:
    def fails(submit: Submit) -> str:
        return "torch.OutOfMemoryError: CUDA out of memory" if len(submit.runs) > 5 else ""

    cluster = Cluster(study_of(trials=32, epochs=3, algorithm="random"), gpus=1, fails=fails)
    found = cluster.play()
    assert found.values is not None
    sizes = [len(one.runs) for one in cluster.submits()]
    assert sizes[:3] == [32, 16, 8]
    assert max(sizes[3:]) <= 4


def test_a_script_that_always_fails_ends_the_study_after_a_few_groups() -> None:
    cluster = Cluster(study_of(trials=64), fails=lambda one: "ImportError: no module named numpyy")
    found = cluster.play()
    assert found.values is None
    assert found.why == "no trial has trained: ImportError: no module named numpyy"
    assert len(cluster.jobs) < 12


def test_a_metric_that_is_never_reported_ends_the_study_with_what_is() -> None:
    cluster = Cluster(study_of(metric="accuracy", trials=4, algorithm="random"), metric=near)
    found = cluster.play()
    assert found.values is None
    assert found.why == "metric: accuracy is never reported; the script reports val_acc"


def test_nan_is_never_the_best() -> None:
    def metric(values: Mapping[str, Any], shrink: int, epoch: int) -> float:
        return math.nan if values["lr"] > 0.05 else near(values, shrink, epoch)

    cluster = Cluster(study_of(trials=20), metric=metric)
    found = cluster.play()
    assert found.values is not None
    assert float(found.values["lr"] or 0) <= 0.05


def test_a_study_of_nothing_but_nan_says_so() -> None:
    found = Cluster(study_of(trials=6), metric=lambda values, shrink, epoch: math.nan).play()
    assert found.why == "no trial has reported a finite val_acc"


def test_the_target_trains_from_half_of_the_trials_on_where_a_gpu_is_idle() -> None:
    cluster = Cluster(study_of(trials=8, algorithm="random", fuse=4), gpus=3)
    while not (early := [one for one in cluster.submits() if one.shrink == 1]):
        cluster.decide()
        cluster.tick()
    assert len([run for run in cluster.state.runs.values() if run.state is RunState.IN_GROUP]) > 1
    behind = sum(run.epoch for key, run in cluster.state.runs.items() if key < 8) / (8 * 9)
    assert behind >= 0.5
    assert early[0].elastic
    assert not early[0].fused
    found = cluster.play()
    assert found.values == max(cluster.state.trials, key=lambda values: near(values, 1, 9))
    targets = [tuple(one.runs.values()) for one in cluster.submits() if one.shrink == 1]
    assert len({str(one) for one in targets}) == len(targets)  # none is trained twice


def test_a_better_trial_replaces_a_target_that_has_just_begun_if_no_gpu_is_idle() -> None:
    def metric(values: Mapping[str, Any], shrink: int, epoch: int) -> float:
        turn = -1.0 if epoch < 6 else 1.0  # what leads at first is the worst at the end
        return turn * near(values, shrink, epoch)

    cluster = Cluster(study_of(trials=6, algorithm="random", eager=0.3), gpus=1, metric=metric)
    cluster.decide()
    cluster.gpus = 2
    cluster.play()
    states = [run.state for run in cluster.state.runs.values() if run.eager]
    assert RunState.DROPPED in states
    assert any(isinstance(one, Cancel) for one in cluster.asked)


def test_promoted_trials_pass_each_width_and_weigh_more() -> None:
    cluster = Cluster(study_of(trials=12, eager=1.0))
    cluster.play()
    by_width = {width: [one for one in cluster.submits() if one.shrink == width] for width in (8, 2, 1)}
    assert sum(len(one.runs) for one in by_width[2]) == 3
    assert sum(len(one.runs) for one in by_width[1]) == 2
    assert by_width[1][0].weight > by_width[2][0].weight > by_width[8][0].weight == 0.6


def test_groups_weigh_more_after_each_rung() -> None:
    cluster = Cluster(study_of(trials=9, shrink=1, epochs=27), gpus=1, merge=False)
    cluster.play()
    assert next(iter(cluster.jobs.values())).weight == pytest.approx(0.75)


def test_an_idle_gpu_takes_part_of_a_group() -> None:
    cluster = Cluster(study_of(trials=16, algorithm="random", shrink=1), gpus=1)
    cluster.decide()
    cluster.tick()
    cluster.gpus = 2
    cluster.play()
    first, second = cluster.submits()
    assert (len(first.runs), len(second.runs)) == (16, 8)
    assert {one.epoch for one in second.origins.values()} == {1}
    assert cluster.now_s == pytest.approx(90.0)  # no epoch was trained twice


def test_thinned_groups_make_room_for_others_and_are_filled_again() -> None:
    study = study_of(trials=60, shrink=1, fuse=12, epochs=9)
    merged, apart = Cluster(study, gpus=2), Cluster(study, gpus=2, merge=False)
    assert merged.play().values == apart.play().values
    again = [one for one in merged.submits() if one.origins]
    assert again
    assert any(len({origin.group for origin in one.origins.values()}) > 1 for one in again)
    assert merged.now_s < apart.now_s


def test_small_groups_become_one_where_others_wait() -> None:
    study = study_of(trials=8, shrink=1, algorithm="random", fuse=8)
    cluster = Cluster(study, gpus=2)
    cluster.decide()
    cluster.tick()
    cluster.decide()
    cluster.others_wait = True
    cluster.tick()
    cluster.play()
    assert [len(one.runs) for one in cluster.submits()] == [4, 4, 8]
    assert len(cluster.state.trials) == 8


def test_a_deadline_ends_the_study_with_the_best_target_so_far() -> None:
    cluster = Cluster(study_of(trials=30, epochs=27, algorithm="random", deadline=200), gpus=2)
    found = cluster.play()
    assert cluster.now_s == 200
    assert found.values is not None
    targets = [run for run in cluster.state.runs.values() if run.shrink == 1]
    assert max(run.last or 0 for run in targets) == found.metric
    cluster.decide()
    assert all(job.state.over for job in cluster.jobs.values())


def test_a_deadline_before_any_report_says_so() -> None:
    found = Cluster(study_of(deadline=5), gpus=0).play()
    assert found.why == "deadline: no trial has reported val_acc within 5 s"


def test_a_study_without_gpus_waits_with_one_group() -> None:
    cluster = Cluster(study_of(), gpus=0)
    for _ in range(5):
        cluster.decide()
        cluster.tick()
    assert [job.state for job in cluster.jobs.values()] == [GroupState.WAITING]
    cluster.gpus = 2
    assert cluster.play().values is not None
