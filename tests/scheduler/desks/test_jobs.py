"""Orders for jobs are taken once, and refused before anything is stored."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from coadapt.core.errors import JobStateError, KeyReusedError
from coadapt.core.job_limits import JobLimitError
from coadapt.core.reports import JobInfo
from coadapt.core.teams_file import from_values
from coadapt.estimators.measurements import Measurements
from coadapt.executor.training.state.checkpoint import CheckpointStore
from pydantic import ValidationError

from tests.support.api import Served, service_of
from tests.support.cycles import RUNS, World
from tests.support.packages import kept


def serving(world: World) -> Served:
    """Return a service around a world's cycle, whose copies are made at once."""
    kept(world.settings.package_dir, "p2")
    return service_of(world)


def test_a_repeated_fork_makes_no_second_job_even_if_the_checkpoint_is_gone_by_then(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    service, folder = serving(world), world.settings.checkpoint_url("a-1", None)
    CheckpointStore(folder).save({"made": 5}, 5)
    assert service.fork("a-1", None, "key", {}) == "a-2"
    shutil.rmtree(folder)
    assert service.fork("a-1", None, "key", {}) == "a-2"
    assert [job.id for job in world.store.every()] == ["a-1", "a-2"]
    with pytest.raises(JobStateError, match=r"^a-1 has no checkpoint yet"):
        service.fork("a-1", None, "another key", {})


@pytest.mark.parametrize("name", ["../../out", "[red]", "a b", "x" * 64, "a\n"])
def test_a_fork_has_a_name_like_any_job_as_folders_are_called_by_it(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    service = serving(world)
    CheckpointStore(world.settings.checkpoint_url("a-1", None)).save({"made": 5}, 5)
    with pytest.raises(ValidationError, match="name"):
        service.fork("a-1", None, "key", {"name": name})
    with pytest.raises(ValidationError, match="name"):
        service.would_fork("a-1", None, {"name": name})
    assert [job.id for job in world.store.every()] == ["a-1"]


def test_a_key_of_another_order_is_no_key_of_a_fork(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    service = serving(world)
    CheckpointStore(world.settings.checkpoint_url("a-1", None)).save({"made": 5}, 5)
    made = service.fork("a-1", 5, "key", {"name": "b"})
    assert service.fork("a-1", 5, "key", {"name": "b"}) == service.fork("a-1", None, "key", {}) == made
    spec = world.job("a").spec.model_dump_json()
    submitted = service.submit(spec, None, "of a submit", "", "")
    for source, steps, key, name, told in [
        ("a-1", 7, "key", "b", f"Idempotency-Key: {made} was submitted with it, and this fork differs in steps"),
        ("a-1", 5, "key", "c", f"Idempotency-Key: {made} was submitted with it, and this fork differs in name"),
        ("b-2", None, "key", "b", f"Idempotency-Key: {made} was submitted with it, which is no fork of b-2"),
        ("a-1", None, "of a submit", "b", f"Idempotency-Key: {submitted} was submitted with it, which is no fork"),
    ]:
        with pytest.raises(KeyReusedError, match=f"^{re.escape(told)}"):
            service.fork(source, steps, key, {"name": name})


def test_a_fork_takes_what_was_changed_and_the_rest_of_its_source(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    service = serving(world)
    CheckpointStore(world.settings.checkpoint_url("a-1", None)).save({"made": 5}, 5)
    source = world.job("a")
    same = world.store.get(service.fork("a-1", 5, "1", {"name": "again"}))
    assert (same.spec.name, same.spec.script, same.script_key) == ("again", source.spec.script, source.script_key)
    spec = source.spec.model_copy(update={"name": "other", "script": "new.py"})
    told = {"spec": spec.model_dump_json(), "package": "p2", "script_key": "s2"}
    other = world.store.get(service.fork("a-1", None, "2", told))
    assert (other.id, other.spec.script, other.package, other.script_key) == ("other-3", "new.py", "p2", "s2")
    assert other.origin is not None
    assert (other.origin.steps, other.origin.copied) == (5, True)


def test_a_verb_is_done_once_for_its_key_and_a_changed_file_is_taken(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    service = serving(world)
    assert [service.change("a-1", "pause", key) for key in ("1", "1", "2")] == [True, True, False]
    world.play("left a\ncancel a\ngo\n? a retired")
    spec = world.job("a").spec.model_copy(update={"args": ["--lr", "1"]})
    for _ in range(2):
        assert service.resume_changed("a-1", spec.model_dump_json(), "p2", "s2", "3")
    assert (world.job("a").spec.args, world.job("a").package, world.job("a").life) == (["--lr", "1"], "p2", 1)
    with pytest.raises(KeyError, match="no job b-9"):
        service.change("b-9", "resume", "4")


def test_what_a_fork_would_do_is_said_and_nothing_is_stored(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS)
    service, source = serving(world), world.job("a")
    spec = source.spec.model_copy(update={"script": "new.py"})
    told = {"spec": spec.model_dump_json(), "package": "p2", "script_key": "s2"}
    no_checkpoint = "a-1 has no checkpoint yet, so nothing can start from one"
    assert service.would_fork("a-1", None, told) == {"steps": None, "refused": [no_checkpoint], "notes": []}
    CheckpointStore(world.settings.checkpoint_url("a-1", None)).save({"made": 5}, 5)
    found = service.would_fork("a-1", None, told)
    assert (found["steps"], found["refused"]) == (5, [])
    assert found["notes"] == ["script: new.py, and a-1 ran train.py; it has to prepare the same model"]
    assert service.would_fork("a-1", 7, {})["refused"] == ["a-1 has no checkpoint of step 7; it has those of 5"]
    assert [job.id for job in world.store.every()] == ["a-1"]


def test_a_file_of_another_model_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "report a t4\n")
    service, source = serving(world), world.job("a")
    larger = Measurements().with_info(JobInfo("other", 32, 5000, 4096, adam_type=False))
    world.store.remember({"s2": larger}, 0.0)
    told = {"spec": source.spec.model_dump_json(), "package": "p2", "script_key": "s2"}
    world.play("cancel a")
    assert service.resume_changed("a-1", told["spec"], "p2", "s2", "1"), "without a checkpoint it begins anew"
    world.play("cancel a")
    CheckpointStore(world.settings.checkpoint_url("a-1", None)).save({"made": 5}, 5)
    sentence = r"^train.py: trains a model of 5,000 parameters, .* of a-1 is of one with 1,000$"
    with pytest.raises(JobStateError, match=sentence):
        service.fork("a-1", None, "key", told)
    with pytest.raises(JobStateError, match=sentence):
        service.resume_changed("a-1", told["spec"], "p2", "s2", "2")
    assert [job.id for job in world.store.every()] == ["a-1"]


def test_a_job_that_has_ended_comes_back_only_where_the_queue_has_room(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play("submit a unprofiled rigid=2\ncancel a\nsubmit b unprofiled rigid=2")
    service = serving(world)
    service.parts.cycle.teams.now = from_values({"user_limits": {"queued": 1}})
    spec = world.job("a").spec.model_dump_json(exclude_unset=True)
    full = r"^limits.queued: user nobody has 1 queued job, and it would exceed its 1; "
    for again in (
        lambda: service.change("a-1", "resume", "1"),
        lambda: service.change("a-1", "requeue", "2"),
        lambda: service.resume_changed("a-1", spec, "p2", "s2", "3"),
    ):
        with pytest.raises(JobLimitError, match=full):
            again()
    with pytest.raises(JobStateError, match=r"^a-1 has been cancelled, so there is nothing to pause"):
        service.change("a-1", "pause", "4")
