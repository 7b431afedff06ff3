"""Studies in virtual time whose groups also train in the bubbles of a pipeline."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.one_f_one_b import OneForwardOneBackward
from coadapt.simulator.studies.bubbles import places
from coadapt.simulator.studies.fusion_profile import FusionProfile
from coadapt.simulator.studies.pool import Pool, StudyOutcome
from coadapt.simulator.studies.response import Response
from coadapt.tuning.study_file import from_values

GPT = OneForwardOneBackward(4, 8, 0.05, 0.1)
ASHA = {"asha": {"grace": 3, "reduction": 3}}


def played(trials: int, replicas: int, algorithm: Any, weights_gib: float = 40.0) -> tuple[Pool, StudyOutcome]:
    study = from_values(
        {
            "name": "r",
            "job": "resnet18.yaml",
            "space": {"lr": {"log": [1e-4, 1.0], "step": 1e-4}},
            "metric": "val_acc",
            "mode": "max",
            "epochs": 40,
            "trials": trials,
            "seed": 0,
            "widths": [1],
            "promote": 1,
            "algorithm": algorithm,
            "shrink": 8,
        }
    )
    found = places(GPT, replicas, 80.0, weights_gib, 6.0) if replicas else []
    pool = Pool(study, 1, FusionProfile(), Response(0), bubbles=found)
    return pool, pool.play()


def test_later_stages_leave_more_memory_and_all_are_idle_as_long() -> None:
    found = places(GPT, 2, 80.0, 40.0, 6.0)
    assert [one.name for one in found] == [f"{r}.{s}" for r in range(2) for s in range(4)]
    assert [one.gib for one in found[:4]] == [16.0, 22.0, 28.0, 34.0]
    assert [one.rate for one in found] == pytest.approx([0.15] * 8)


@pytest.mark.parametrize("algorithm", ["random", ASHA])
def test_bubbles_make_a_study_shorter_and_find_what_it_finds_without(algorithm: Any) -> None:
    _, alone = played(300, 0, algorithm)
    pool, more = played(300, 8, algorithm)
    assert more.makespan_s < alone.makespan_s
    assert dict(more.values) == dict(alone.values)
    assert any(job.submit.place for job in pool.jobs.values())


def test_only_narrow_trials_train_in_bubbles() -> None:
    pool, _ = played(300, 8, "random")
    assert all(job.submit.shrink == 8 and not job.submit.elastic for job in pool.jobs.values() if job.submit.place)


def test_no_group_is_too_large_for_its_stage() -> None:
    pool, _ = played(600, 2, ASHA)
    memory = FusionProfile().memory(8)
    for job in pool.jobs.values():
        if place := pool.bubbles.get(job.submit.place):
            assert len(job.submit.runs) <= place.most(memory, 1000)


def test_stages_that_leave_too_little_memory_train_nothing() -> None:
    _, alone = played(100, 0, "random")
    pool, full = played(100, 8, "random", weights_gib=79.0)
    assert not any(job.submit.place for job in pool.jobs.values())
    assert full.makespan_s == alone.makespan_s
