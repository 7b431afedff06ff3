"""Trials go on from states of other groups, though lines between users keep their process from reading these."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.errors import JobStateError
from coadapt.core.isolation import Isolation, uid_of
from coadapt.core.job import JobSpec, Phase
from coadapt.core.job_limits import JobLimitError
from coadapt.core.teams_file import from_values
from coadapt.core.trials import url_of_epoch
from coadapt.executor.sandbox.ownership import acting_as, let_pass
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.scheduler.changes.forks import Forks
from coadapt.scheduler.changes.trial_sources import check_same_sources
from coadapt.scheduler.executors.executor_jobs import executor_job
from coadapt.scheduler.files.packages import PackageStore
from coadapt.scheduler.views.job_views import job_row

from tests.support.api import service_of
from tests.support.cycles import World
from tests.support.held_work import HeldWork
from tests.support.stored_rows import read_back

GROUP = {
    "script": "train.py",
    "profile": False,
    "resources": {"gpus": 1},
    "training": {"adaptivity": "rigid"},
}
OTHER = r"trials: from_job: no job a-1 of your own or of your teams"


class Cluster:
    """A service between lines, and the group a-1 of ann, which has kept states after epoch 3 and at its end."""

    def __init__(self, folder: Path, isolation: Isolation) -> None:
        self.world = World(folder, "1x t4:4", isolation=isolation)
        self.service, self.copies = service_of(self.world), HeldWork()
        self.url = self.world.settings.checkpoint_url("a-1", None)
        self.submit("a", "ann", {"number": 0}, {"number": 1})
        for url, epoch in ((self.url, 5), (url_of_epoch(self.url, 3), 3)):
            CheckpointStore(url).save({"epoch": epoch}, epoch * 10)
        self.hold()

    def hold(self) -> None:
        """Keep copies until they are told to go on, as the service was just started."""
        parts, world = self.service.parts, self.world
        self.copies.waiting.clear()
        forks = Forks(world.store, world.cycle.orders.do, world.settings, self.copies)
        parts.forks._threads = self.copies
        forks.begin_rest()

    def submit(self, name: str, owner: str, *trials: dict[str, Any], key: str = "") -> str:
        spec = JobSpec.model_validate({"name": name, **GROUP, "trials": trials})
        id = str(self.service.submit(spec.model_dump_json(), None, key or f"{owner}/{name}", "", owner))
        self.world.ids[name] = id
        return id

    def given(self, id: str) -> dict[str, str]:
        """Return the URLs that the process of a group is told of states of others."""
        settings = self.world.settings
        job = executor_job(self.world.store.get(id), settings, PackageStore(settings.package_dir), ["t4"])
        return dict(job.trial_sources)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, Isolation.NAMESPACE)


AFTER_3 = {"number": 0, "from_job": "a-1", "from_trial": 1, "from_epoch": 3}


def test_a_group_waits_until_the_service_has_copied_what_its_trials_go_on_from(cluster: Cluster) -> None:
    id = cluster.submit("b", "ann", AFTER_3, {"number": 1, "from_job": "a-1"})
    cluster.world.play("go\n? b submitted")
    assert job_row(cluster.world.job("b"))["reason"] == "waiting for the states of trials of a-1"
    cluster.copies.go_on()
    cluster.world.play("wish b t4-000:1\ngo\nruns b\n? b running")
    url = cluster.given(id)["a-1"]
    assert url.startswith(cluster.world.settings.checkpoint_url(id, None)), "its own folder is all that it sees"
    for folder, epoch in ((url, 5), (url_of_epoch(url, 3), 3)):
        loaded = CheckpointStore(folder).load_newest()
        assert loaded is not None
        assert loaded[1] == {"epoch": epoch}


def test_without_lines_nothing_is_copied_and_the_process_reads_where_the_states_are(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, Isolation.NONE)
    id = cluster.submit("b", "ann", AFTER_3)
    assert cluster.copies.waiting == []
    assert cluster.given(id) == {"a-1": cluster.url}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of other users")
def test_a_group_with_a_user_of_its_own_owns_the_copies(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and len(folder.parts) > 2:
            let_pass(folder)
    cluster = Cluster(tmp_path, Isolation.USER)
    for folder, _, files in os.walk(cluster.url):
        for path in (folder, *(f"{folder}/{name}" for name in files)):
            os.chown(path, uid_of("a-1"), uid_of("a-1"))
            os.chmod(path, 0o700)
    for folder in Path(cluster.url).parents:
        if folder != tmp_path and folder.is_relative_to(tmp_path):
            let_pass(folder)
    id = cluster.submit("b", "ann", AFTER_3)
    cluster.copies.go_on()
    with acting_as(uid_of(id)):
        with pytest.raises(PermissionError):
            os.listdir(cluster.url)
        loaded = CheckpointStore(url_of_epoch(cluster.given(id)["a-1"], 3)).load_newest()
    assert loaded is not None
    assert loaded[1] == {"epoch": 3}


def test_a_service_that_is_killed_copies_what_was_not(cluster: Cluster) -> None:
    id = cluster.submit("b", "ann", AFTER_3)
    cluster.hold()
    assert len(cluster.copies.waiting) == 1
    cluster.copies.go_on()
    found = cluster.world.store.get(id)
    assert [one.copied for one in found.trial_sources] == [True]
    assert read_back(found) == found
    cluster.hold()
    assert cluster.copies.waiting == []


def test_a_group_that_was_cancelled_meanwhile_has_its_states_when_it_is_resumed(cluster: Cluster) -> None:
    id = cluster.submit("b", "ann", AFTER_3)
    cluster.world.play("cancel b\ngo\n? b retired")
    cluster.copies.go_on()
    assert not Path(cluster.world.settings.checkpoint_url(id, None)).exists()
    cluster.service.change(id, "resume", "again")
    cluster.copies.go_on()
    cluster.world.play("go\n? b queued")


def test_states_that_are_gone_fail_the_group_with_the_reason(cluster: Cluster) -> None:
    id = cluster.submit("b", "ann", {**AFTER_3, "from_epoch": 4})
    cluster.copies.go_on()
    found = cluster.world.store.get(id)
    assert (found.phase, found.state.reason) == (Phase.FAILED, "trials of a-1: a-1 has no checkpoint of epoch 4")


def test_a_job_that_its_user_may_not_read_is_refused_and_nothing_is_stored(cluster: Cluster) -> None:
    with pytest.raises(JobLimitError, match=f"^{OTHER}$"):
        cluster.submit("b", "bob", AFTER_3)
    assert [job.id for job in cluster.world.store.every()] == ["a-1"]


def test_states_stay_in_their_team(cluster: Cluster) -> None:
    cluster.service.parts.cycle.teams.now = from_values(
        {"teams": {name: {"users": ["ann"]} for name in ("red", "blue")}}
    )
    spec = {**GROUP, "name": "c", "team": "red", "trials": [{"number": 0}]}
    source = cluster.service.submit(JobSpec.model_validate(spec).model_dump_json(), None, "c", "", "ann")
    spec |= {"name": "d", "team": "blue", "trials": [{"number": 0, "from_job": source}]}
    told = (
        f"trials: from_job: {source} is of team red, and this job counts for blue; a checkpoint stays in its team"
    )
    with pytest.raises(JobLimitError, match=f"^{re.escape(told)}$"):
        cluster.service.submit(JobSpec.model_validate(spec).model_dump_json(), None, "d", "", "ann")


def test_a_job_that_is_no_group_has_no_trials_to_go_on_from(cluster: Cluster) -> None:
    plain = JobSpec(name="plain", script="train.py")
    id = cluster.service.submit(plain.model_dump_json(), None, "plain", "", "ann")
    with pytest.raises(JobLimitError, match=f"^trials: from_job: {id} is no group of trials"):
        cluster.submit("b", "ann", {"number": 0, "from_job": id})


def test_a_name_stands_for_the_job_that_it_meant_at_first_also_when_it_is_submitted_again(
    cluster: Cluster,
) -> None:
    id = cluster.submit("b", "ann", {"number": 0, "from_job": "a"}, key="once")
    cluster.submit("a", "ann", {"number": 0}, key="another a")
    assert cluster.submit("b", "ann", {"number": 0, "from_job": "a"}, key="once") == id
    assert cluster.world.store.get(id).spec.trials[0].from_job == "a-1"


def test_a_fork_of_such_a_group_needs_only_the_groups_own_states(cluster: Cluster) -> None:
    id = cluster.submit("b", "ann", AFTER_3)
    cluster.copies.go_on()
    CheckpointStore(cluster.world.settings.checkpoint_url(id, None)).save({"epoch": 6}, 60)
    fork = cluster.world.store.get(cluster.service.fork(id, None, "fork", {"name": "f"}))
    assert (fork.spec.trials[0].from_job, fork.trial_sources) == (None, ())


def test_a_changed_file_cannot_let_trials_begin_elsewhere(cluster: Cluster) -> None:
    id = cluster.submit("b", "ann", AFTER_3)
    job = cluster.world.store.get(id)
    check_same_sources(job.spec, job)
    other = job.spec.trials[0].model_copy(update={"from_job": "z-9"})
    changed = job.spec.model_copy(update={"trials": [other]}).model_dump_json()
    cluster.world.play("cancel b\ngo\n? b retired")
    with pytest.raises(
        JobStateError, match=r"^trials: from_job: z-9 is new for trial 0, and b-2 goes on from its own"
    ):
        cluster.service.resume_changed(id, changed, None, "", "changed")
