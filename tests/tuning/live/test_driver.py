"""A study with real job files finds its best values, whatever is killed meanwhile, and asks for nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from coadapt.tuning.live.driver import Driver
from coadapt.tuning.live.store import Asked, StudyStore
from coadapt.tuning.live.views import study_row, study_view

from tests.support.played_verbs import PlayedCluster, Refused, accuracy

BASE = {"name": "digits", "script": "train.py", "resources": {"max_gpus": 4}, "training": {"max_batch_size": 256,
        "initial_batch_size": 64}}  # fmt: skip
FILE: dict[str, Any] = {
    "name": "digits",
    "job": "job.yaml",
    "space": {"lr": {"log": [0.001, 1.0]}},
    "metric": "accuracy",
    "mode": "max",
    "trials": 12,
    "epochs": 9,
    "seed": 3,
}


class Study:
    """A study on a played cluster, whose actor can be killed between any two of its calls."""

    def __init__(self, folder: Path, cluster: PlayedCluster | None = None, **fields: Any) -> None:
        self.folder, self.cluster = folder / "digits:1", cluster or PlayedCluster()
        told = {"spec": BASE, "package": "0" * 64, "script_key": "k"}
        asked = Asked("digits:1", "ann", self.cluster.now_s, {**FILE, **fields}, told)
        StudyStore.begin(self.folder, asked, "coadapt_1_secret").close()
        self.begin()

    def begin(self) -> None:
        """Start the actor, anew after it was killed."""
        self.store = StudyStore(self.folder)
        self.driver = Driver(self.store, self.cluster, (Refused,), lambda: self.cluster.now_s)

    def play(self, most: int = 300, killed: bool = False) -> dict[str, Any]:
        for _ in range(most):
            if killed:
                self.begin()
            if self.driver.tick():
                return study_view(self.folder)
            self.cluster.tick()
        raise AssertionError(f"it is not over after {most} ticks: {study_row(self.folder)}")

    @property
    def best(self) -> dict[str, Any]:
        return max(self.store.state.trials, key=lambda values: accuracy(values, 1, 9))


@pytest.mark.parametrize("shrink", [1, 8])
@pytest.mark.parametrize(
    "algorithm", ["random", "tpe", "halving", "hyperband", {"asha": {"grace": 1, "reduction": 3}}], ids=str
)
def test_every_algorithm_finds_the_best_of_its_trials(tmp_path: Path, algorithm: Any, shrink: int) -> None:
    study = Study(tmp_path, algorithm=algorithm, shrink=shrink)
    view = study.play()
    assert (view["status"], view["best_values"]) == ("done", study.best)
    assert view["best_job"]["trials"] == [{"values": study.best}]
    assert view["trials_over"] == 12
    assert not [row for row in view["trials"] if row["state"] == "failed"]


@pytest.mark.parametrize("shrink", [1, 8])
def test_an_actor_that_is_killed_at_every_tick_comes_to_the_same(tmp_path: Path, shrink: int) -> None:
    views = [Study(tmp_path / str(killed), shrink=shrink).play(killed=killed) for killed in (False, True)]
    for view in views:
        view.pop("gpu_s")
        for row in view["trials"]:
            row.pop("gpu_s")
    assert views[0] == views[1]


def test_an_actor_that_is_killed_after_each_submit_makes_no_second_job(tmp_path: Path) -> None:
    study = Study(tmp_path)
    real = study.cluster.submit_told

    class Killed(Exception):
        pass

    def submit(told: Any, idempotency_key: str) -> str:
        known = idempotency_key in study.cluster.keys
        job = real(told, idempotency_key)
        if not known:
            raise Killed
        return job

    study.cluster.submit_told = submit  # type: ignore[method-assign]
    for _ in range(300):
        try:
            if study.driver.tick():
                break
            study.cluster.tick()
        except Killed:
            study.begin()
    assert study_row(study.folder)["status"] == "done"
    jobs = [job for verb, job in study.cluster.asked if verb == "submit"]
    assert len(jobs) == len(set(jobs)) == len(study.store.known().jobs)


def test_trials_that_cannot_train_as_one_run_apart_and_the_user_is_told_why(tmp_path: Path) -> None:
    why = "CannotFuse: nonzero: it cannot run for several trials at once"
    cluster = PlayedCluster(fails=lambda spec: why if len(spec.trials) > 1 else "")
    study = Study(tmp_path, cluster, trials=4, shrink=1)
    view = study.play()
    assert view["status"] == "done"
    assert view["notes"] == [f"trials run apart: {why}"]


def test_a_script_that_always_fails_ends_the_study_with_what_it_said(tmp_path: Path) -> None:
    view = Study(tmp_path, PlayedCluster(fails=lambda spec: "ValueError: no data")).play()
    assert view["status"] == "failed"
    assert "ValueError: no data" in view["why"]


def test_a_model_that_cannot_be_narrowed_ends_the_study_with_its_first_group(tmp_path: Path) -> None:
    why = "shrink: the layer head would be 2 wide; at least 8 are accepted"
    study = Study(tmp_path, PlayedCluster(gpus=1, fails=lambda spec: why))
    view = study.play()
    assert (view["status"], view["why"]) == ("failed", f"no trial has trained: {why}")
    assert len(view["jobs"]) == 1


def test_a_study_that_is_cancelled_ends_its_jobs_and_is_over_then(tmp_path: Path) -> None:
    study = Study(tmp_path)
    for _ in range(3):
        study.driver.tick()
        study.cluster.tick()
    study.store.cancel()
    view = study.play()
    assert view["status"] == "cancelled"
    assert {job.phase for job in study.cluster.jobs_by_id.values()} <= {"cancelled", "succeeded"}


def test_groups_split_onto_idle_gpus_and_their_trials_go_on_where_they_were(tmp_path: Path) -> None:
    cluster = PlayedCluster(gpus=1, epochs=40)
    study = Study(tmp_path, cluster, algorithm="random", shrink=1, epochs=40, trials=16)
    for tick in range(300):
        if study.driver.tick():
            break
        cluster.gpus = 4 if tick > 3 else 1
        cluster.tick()
    moved = [job for job in cluster.jobs_by_id.values() if job.began_at > 0]
    assert moved, "no group was split"
    assert study_row(study.folder)["best_values"] == study.best


def test_groups_share_what_is_measured_only_with_their_like(tmp_path: Path) -> None:
    keys: dict[str, set[tuple[int, int]]] = {}
    study = Study(tmp_path)
    real = study.cluster.submit_told

    def submit(told: Any, idempotency_key: str) -> str:
        spec = told["spec"]
        keys.setdefault(told["script_key"], set()).add((len(spec["trials"]), spec.get("shrink", 1)))
        return real(told, idempotency_key)

    study.cluster.submit_told = submit  # type: ignore[method-assign]
    study.play()
    assert all(len(kinds) == 1 for kinds in keys.values())
    assert keys["k"] == {(1, 1)}, "the target is as fast as the job alone"


def test_a_deadline_that_no_trial_can_keep_ends_the_study_long_before_it(tmp_path: Path) -> None:
    cluster = PlayedCluster(gpus=1, epoch_ticks=lambda spec: 100)  # an epoch takes 1000 s
    study = Study(tmp_path, cluster, deadline="10m")
    view = study.play()
    assert (view["status"], view["why"]) == (
        "failed",
        "deadline: 600 s is less than an epoch of a group of 12 trials at 1/8 of the width, which takes 1000 s; "
        "a longer deadline is accepted, or a smaller `fuse`",
    )
    assert cluster.now_s < 1000.0 + 200.0
    assert {job.phase for job in cluster.jobs_by_id.values()} == {"cancelled"}


def test_a_deadline_that_the_target_cannot_keep_is_told_once_the_target_is_timed(tmp_path: Path) -> None:
    cluster = PlayedCluster(gpus=2, epoch_ticks=lambda spec: 1 if spec.is_group else 100)
    study = Study(tmp_path, cluster, algorithm="random", deadline="600s")
    view = study.play()
    told = "deadline: 600 s is less than an epoch of the target, which takes 1000 s"
    assert (view["status"], view["notes"]) == ("done", [told])
    assert study.store.target_epoch_s == pytest.approx(1000.0)
    assert view["best_values"] == study.best, "the best trial counts where no target has reported"


def test_a_deadline_that_holds_is_no_news(tmp_path: Path) -> None:
    cluster = PlayedCluster(epoch_ticks=lambda spec: 4)
    view = Study(tmp_path, cluster, deadline="2h").play()
    assert (view["status"], view["notes"], view["why"]) == ("done", [], "")


def test_what_a_group_notes_as_it_begins_is_told_once_and_long_before_its_first_epoch(tmp_path: Path) -> None:
    cluster = PlayedCluster(epoch_ticks=lambda spec: 5, notes=lambda spec: ("layer 'a' grows",))
    study = Study(tmp_path, cluster)
    for _ in range(2):
        study.driver.tick()
        cluster.tick()
    study.driver.tick()
    view = study_view(study.folder)
    assert (view["notes"], view["curves"]) == (["layer 'a' grows"], {})
    assert study.play()["notes"] == ["layer 'a' grows"]


def test_small_groups_become_one_while_other_peoples_jobs_wait(tmp_path: Path) -> None:
    cluster = PlayedCluster()
    study = Study(tmp_path, cluster, algorithm="random", shrink=1, trials=8)
    for _ in range(3):
        study.driver.tick()
        cluster.tick()
    cluster.others = [{"id": "bob-1", "wait_reason": "no_room"}]
    study.play()
    assert [len(job.spec.trials) for job in cluster.jobs_by_id.values()] == [4, 4, 8]
