"""Executors are told commands in order, and made where they are missing; lost ones are told of. Without Ray."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from coadapt.core.job import JobSpec, Phase, ResourceRequest, RestartPolicy
from coadapt.core.settings import Settings
from coadapt.executor.executor_job import ExecutorStatus
from coadapt.executor.head_files import FILES_NAME
from coadapt.executor.reconciling.failures import POLICY
from coadapt.scheduler.changes.reactions import claim, end, react
from coadapt.scheduler.executors.actors import Executors
from coadapt.scheduler.executors.executor_jobs import command_job, executor_job, gpus_per_replica
from coadapt.scheduler.files.packages import PackageStore
from coadapt.scheduler.jobs.record import JobRecord
from ray.exceptions import ActorDiedError

from tests.support.records import SPEC, A, B, job
from tests.support.simulated_workers import World

WAIT_S = 20.0


class Answer:
    """Of an actor: a value, or an error."""

    def __init__(self, value: Any = None, error: Exception | None = None, *, silent: bool = False) -> None:
        self._future: Future[Any] = Future()
        if silent:
            return
        if error is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(error)

    def future(self) -> Future[Any]:
        return self._future


class Actors:
    """Stands for Ray: its named actors, what they were asked, and what goes wrong."""

    def __init__(self) -> None:
        self.there = set[str]()
        self.asked = list[tuple[Any, ...]]()
        self.unreachable = dict[str, int]()  # by name: calls that fail before one goes through
        self.error: Exception | None = None  # of the answers
        self.silent = False  # no command is answered
        self.open = list[Future[Any]]()  # answers that are still to come
        self.told = list[Any]()  # to actors when they were made
        self.nodes = dict[str, str]()  # where actors were made
        self.statuses = dict[str, ExecutorStatus]()  # of the actors that answer

    def get_actor(self, name: str, namespace: str) -> Any:
        if self.unreachable.get(name):
            self.unreachable[name] -= 1
            raise ConnectionError("the control plane is away")
        if name not in self.there:
            raise ValueError("no such actor")
        return Handle(self, name)

    def options(self, *, name: str, **how: Any) -> Any:
        strategy = how.get("scheduling_strategy")
        node = how["label_selector"]["ray.io/node-id"] if strategy is None else strategy.node_id
        return SimpleNamespace(remote=lambda told: self._make(name, told, node))

    def _make(self, name: str, told: Any, node: str) -> Any:
        self.told.append(pickle.loads(told) if isinstance(told, bytes) else told)
        self.nodes[name] = node
        self.there.add(name)
        self.asked.append(("make", name))
        return Handle(self, name)

    def kill(self, handle: Any, no_restart: bool) -> None:
        self.asked.append(("kill", handle.name, no_restart))
        if no_restart:
            self.there.discard(handle.name)


class Handle:
    def __init__(self, actors: Actors, name: str) -> None:
        self.actors, self.name = actors, name

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *args: self._asked(method, args))

    def _asked(self, method: str, args: tuple[Any, ...]) -> Answer:
        if method == "status":
            known = self.actors.statuses.get(self.name)
            return Answer(known, TimeoutError() if known is None else None)
        self.actors.asked.append((method, self.name, *args))
        answer = Answer(error=self.actors.error, silent=self.actors.silent)
        if self.actors.silent:
            self.actors.open.append(answer.future())
        return answer


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> Actors:
    found = Actors()

    class Context:
        def get_node_id(self) -> str:
            return "ab" * 28

    monkeypatch.setattr(ray, "get_runtime_context", Context)
    monkeypatch.setattr(ray, "get_actor", found.get_actor)
    monkeypatch.setattr(ray, "kill", found.kill)
    monkeypatch.setattr(ray, "remote", lambda actor: SimpleNamespace(options=found.options))
    monkeypatch.setattr(ray, "wait", lambda refs, **how: (refs, []))
    monkeypatch.setattr(ray, "get", lambda answer, timeout: answer.future().result(0))
    return found


@pytest.fixture
def lost() -> list[tuple[str, str]]:
    return []


def made(folder: Path, lost: list[tuple[str, str]], first_wait_s: float) -> Executors:
    def tell(job_id: str, why: str) -> None:
        lost.append((job_id, why))

    return Executors(
        Settings(state_dir=str(folder)), PackageStore(folder), lambda: ["t4"], tell, first_wait_s=first_wait_s
    )


@pytest.fixture
def executors(actors: Actors, lost: list[tuple[str, str]], tmp_path: Path) -> Iterator[Executors]:
    found = made(tmp_path, lost, 0.01)
    yield found
    found.stop()


@pytest.fixture
def patient(actors: Actors, lost: list[tuple[str, str]], tmp_path: Path) -> Iterator[Executors]:
    """Executors that try a failed command again after an hour."""
    found = made(tmp_path, lost, 3600.0)
    yield found
    found.stop()


NAME = "coadapt-job-j-1"


def wait_until(found: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not found():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)  # between two looks at another thread, up to a limit


def test_commands_arrive_in_order_and_an_executor_is_made_once(executors: Executors, actors: Actors) -> None:
    executors.assign(job(), (A,), 1)
    executors.profile(job(), B, 1)
    executors.end_profile(job(), B, 1)
    executors.restart(job())
    executors.retire(job())
    executors.drain(WAIT_S)
    assert actors.asked == [
        ("make", NAME),
        ("assign", NAME, [A], 1, None),
        ("profile", NAME, B, 1),
        ("end_profile", NAME, B, 1),
        ("kill", NAME, False),
        ("leave", NAME),
        ("kill", NAME, True),
    ], "it tells the rest before it is ended"


def test_no_executor_is_made_only_to_end_something(executors: Executors, actors: Actors) -> None:
    executors.cancel(job())
    executors.end_profile(job(), B, 1)
    executors.retire(job())
    executors.drain(WAIT_S)
    assert actors.asked == []


@pytest.mark.parametrize("arrived", [True, False], ids=["told", "lost"])
def test_a_job_that_is_ended_leaves_also_gpus_of_which_its_executor_was_never_told(
    arrived: bool, executors: Executors, actors: Actors
) -> None:
    actors.there.add(NAME)
    given, far = claim(job(), (A, B), 1.0).job, World()
    if arrived:
        far.deliver((A, B), given.sequence)
        far.run(3.0)
    ended = end(given, Phase.CANCELLED, "cancelled by the user", 2.0).job
    executors.cancel(ended)
    executors.drain(WAIT_S)
    for method, _, *arguments in actors.asked:
        far.cancel() if method == "cancel" else far.deliver(*arguments[:2])
        assert arrived or not far.processes
    far.run(3.0)
    for event in far.told:
        ended = react(ended, event, 5.0).job
    assert not ended.held


def test_a_command_is_tried_again_while_the_control_plane_is_away(
    executors: Executors, actors: Actors, lost: list[tuple[str, str]]
) -> None:
    actors.unreachable[NAME] = 2
    executors.assign(job(), (A,), 1)
    executors.drain(WAIT_S)
    assert actors.asked == [("make", NAME), ("assign", NAME, [A], 1, None)]
    assert lost == []


def test_one_executor_that_fails_delays_no_command_to_another(
    patient: Executors, actors: Actors, lost: list[tuple[str, str]]
) -> None:
    actors.unreachable[NAME] = 99
    others = [job(id=f"j-{number}") for number in range(2, 10)]
    patient.assign(job(), (A,), 1)
    patient.cancel(job())
    for other in others:
        patient.assign(other, (A,), 1)
    sent = [("assign", f"coadapt-job-{other.id}") for other in others]
    wait_until(lambda: len(actors.asked) == 2 * len(others))
    assert sorted(asked[:2] for asked in actors.asked if asked[0] != "make") == sorted(sent)
    assert lost == [], "the command that failed still waits for its second try"


def test_executors_that_do_not_answer_delay_no_command_to_another(executors: Executors, actors: Actors) -> None:
    actors.silent = True
    jobs = [job(id=f"j-{number}") for number in range(1, 20)]
    for each in jobs:
        executors.assign(each, (A,), 1)
        executors.assign(each, (B,), 2)
    executors.drain(WAIT_S)
    for each in jobs:
        orders = [asked[2:] for asked in actors.asked if asked[:2] == ("assign", f"coadapt-job-{each.id}")]
        assert orders == [([A], 1, None), ([B], 2, None)], "in order, and no answer is waited for"


def test_after_the_last_try_the_job_is_told_lost_and_later_commands_do_not_wait(
    executors: Executors, actors: Actors, lost: list[tuple[str, str]]
) -> None:
    actors.unreachable[NAME] = 3
    executors.assign(job(), (A,), 1)
    executors.drain(WAIT_S)
    assert lost == [("j-1", "its executor could not be reached: the control plane is away")]
    assert actors.asked == []
    executors.assign(job(), (A,), 2)
    executors.drain(WAIT_S)
    assert actors.asked[-1] == ("assign", NAME, [A], 2, None)


def test_an_executor_that_is_dead_for_good_is_told_lost_and_made_anew(
    executors: Executors, actors: Actors, lost: list[tuple[str, str]]
) -> None:
    actors.error = ActorDiedError()
    executors.assign(job(), (A,), 1)
    executors.drain(WAIT_S)
    assert [(job_id, why.startswith("its executor died: ")) for job_id, why in lost] == [("j-1", True)]
    actors.error = None
    actors.there.clear()
    executors.assign(job(), (A,), 2)
    executors.drain(WAIT_S)
    assert actors.asked[-2:] == [("make", NAME), ("assign", NAME, [A], 2, None)]


def test_statuses_are_of_the_executors_that_exist_and_none_where_one_is_silent(
    executors: Executors, actors: Actors
) -> None:
    actors.there |= {NAME, "coadapt-job-silent"}
    actors.statuses = {NAME: ExecutorStatus("idle", 3)}
    jobs = [job(), job(id="silent"), job(id="missing")]
    assert executors.statuses(jobs, 1.0) == {"j-1": ExecutorStatus("idle", 3), "silent": None}


# --- what an executor is told of its job -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (ResourceRequest(gpus_per_replica=2), {"*": 2}),
        (ResourceRequest(gpu_types=["t4"], gpus_per_replica=2), {"t4": 2}),
        (ResourceRequest(gpus_per_replica={"t4": 2, "v100": 1}), {"t4": 2}),
        (ResourceRequest(gpu_types=["v100"], gpus_per_replica={"t4": 2, "v100": 1}), {"v100": 1}),
    ],
)
def test_gpus_of_a_replica_are_given_for_each_type_the_job_may_use(
    resources: ResourceRequest, expected: dict[str, int]
) -> None:
    spec = SPEC.model_copy(update={"resources": resources})
    assert gpus_per_replica(spec, ("a100", "t4")) == expected


def test_an_executor_is_told_the_jobs_script_places_and_pace(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path), checkpoint_root="s3://bucket", time_scale=10.0)
    spec = JobSpec.model_validate(
        {"name": "j", "script": "t.py", "args": ["--lr", "1"], "emulation": {"profile": "bert", "time_scale": 2.0}}
    )
    record = JobRecord("j-1", 1, spec, job().state)
    told = executor_job(record, settings, PackageStore(tmp_path), ["t4"])
    assert (told.script, told.args, told.folder, told.package) == ("t.py", ("--lr", "1"), record.folder, "")
    assert (told.checkpoint_url, told.outputs_url) == ("s3://bucket/j-1", "s3://bucket/j-1/outputs")
    assert told.pace == {"profile": "bert", "time_scale": 20.0}


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        ({}, (False, True)),
        ({"restartable": True}, (True, True)),
        ({"restart_policy": "never"}, (False, False)),
        ({"restart_policy": "on_failure"}, (True, True)),
        ({"sizes": [1, 2], "elastic": True, "restart_policy": "on_loss"}, (False, True)),
    ],
)
def test_an_executor_is_told_what_its_job_is_started_again_after(
    written: dict[str, Any], rules: tuple[bool, bool], tmp_path: Path
) -> None:
    spec = JobSpec.model_validate({"name": "j", "command": ["make"], "elastic": False} | written)
    told = command_job(job(spec=spec), Settings(state_dir=str(tmp_path)), PackageStore(tmp_path))
    assert (told.rules.retries_errors, told.rules.retries_losses) == rules
    assert (told.rules.why_not == POLICY) == ("restart_policy" in written), (
        "a user hears only of what is in the file"
    )
    assert told.called == "make"
    native = JobSpec(name="j", script="t.py", restart_policy=RestartPolicy.NEVER)
    for spec, policy in ((SPEC, RestartPolicy.ON_FAILURE), (native, RestartPolicy.NEVER)):
        found = executor_job(job(spec=spec), Settings(state_dir=str(tmp_path)), PackageStore(tmp_path), ["t4"])
        assert found.restarts is policy


def test_executors_of_all_other_jobs_are_ended_and_nobody_else(
    executors: Executors, actors: Actors, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["coadapt-job-j-1", "coadapt-job-old-2", "coadapt-job-old-2/ab-1", "coadapt-scheduler"]
    found = [{"name": name, "namespace": "coadapt"} for name in names]
    monkeypatch.setattr(
        ray.util, "list_named_actors", lambda all_namespaces: [*found, {"name": names[1], "namespace": "other"}]
    )
    actors.there = set(names)
    executors.retire_others([job()])
    executors.drain(WAIT_S)
    assert actors.asked == [("leave", "coadapt-job-old-2"), ("kill", "coadapt-job-old-2", True)]


def test_a_job_that_begins_again_has_an_executor_of_its_own_which_says_so(
    executors: Executors, actors: Actors, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = job(life=2)
    executors.assign(job(), (A,), 1)
    executors.assign(again, (A,), 2)
    executors.retire(job())
    executors.assign(again, (B,), 3)
    executors.drain(WAIT_S)
    assert [asked[:2] for asked in actors.asked] == [
        ("make", NAME),
        ("assign", NAME),
        ("make", f"{NAME}~2"),
        ("assign", f"{NAME}~2"),
        ("leave", NAME),
        ("kill", NAME),
        ("assign", f"{NAME}~2"),
    ]
    actors.asked.clear()
    found = [{"name": name, "namespace": "coadapt"} for name in (NAME, f"{NAME}~1", f"{NAME}~2")]
    monkeypatch.setattr(ray.util, "list_named_actors", lambda all_namespaces: found)
    actors.there |= {one["name"] for one in found}
    executors.retire_others([again])
    executors.drain(WAIT_S)
    ended = [asked[1:] for asked in actors.asked if asked[0] == "kill"]
    assert ended == [(NAME, True), (f"{NAME}~1", True)], "of earlier lives"


def test_an_executor_that_is_ended_and_needed_again_is_made_anew_when_its_name_is_free(
    executors: Executors, actors: Actors
) -> None:
    executors.assign(job(), (A,), 1)
    executors.retire(job())
    executors.assign(job(), (B,), 2)
    executors.drain(WAIT_S)
    assert [asked[0] for asked in actors.asked] == ["make", "assign", "leave", "kill", "make", "assign"]


def test_what_an_executor_that_is_made_anew_is_told_is_what_is_stored_by_then(
    actors: Actors, tmp_path: Path
) -> None:
    stored = job(kept={"budget": {"failures": 2}})
    found = Executors(
        Settings(state_dir=str(tmp_path)),
        PackageStore(tmp_path),
        lambda: ["t4"],
        lambda job_id, why: None,
        newest=lambda job: stored,
    )
    found.assign(job(), (A,), 1)
    found.drain(WAIT_S)
    found.stop()
    assert actors.told[0].kept == stored.kept


def test_an_executor_that_does_not_leave_delays_its_own_job_alone(executors: Executors, actors: Actors) -> None:
    actors.silent = True
    executors.assign(job(), (A,), 1)
    executors.retire(job())
    wait_until(lambda: ("leave", NAME) in actors.asked)
    executors.assign(job(), (B,), 2)
    executors.assign(job(id="j-2"), (B,), 1)
    wait_until(lambda: any(asked[:2] == ("assign", "coadapt-job-j-2") for asked in actors.asked))
    assert ("assign", NAME, [B], 2, None) not in actors.asked


def test_an_error_of_an_executor_that_another_one_has_followed_loses_nothing(
    executors: Executors, actors: Actors, lost: list[tuple[str, str]]
) -> None:
    actors.silent = True
    executors.assign(job(), (A,), 1)
    wait_until(lambda: len(actors.open) == 1)
    actors.silent = False
    executors.retire(job())
    executors.assign(job(), (B,), 2)
    executors.drain(WAIT_S)
    actors.open[0].set_exception(ActorDiedError())
    executors.assign(job(), (B,), 3)
    executors.drain(WAIT_S)
    assert lost == []
    assert [asked[0] for asked in actors.asked].count("make") == 2


def test_executors_stand_where_they_are_told_to_and_those_off_the_head_have_a_writer_there(
    actors: Actors, tmp_path: Path
) -> None:
    homes = {"j-1": None, "j-2": "cd" * 28, "j-3": "cd" * 28}
    found = Executors(
        Settings(state_dir=str(tmp_path)),
        PackageStore(tmp_path),
        lambda: ["t4"],
        lambda job_id, why: None,
        home=lambda job, slots: homes[job.id],
    )
    for name in homes:
        found.assign(job(id=name), (A,), 1)
        found.drain(WAIT_S)
    found.stop()
    made = [asked[1] for asked in actors.asked if asked[0] == "make"]
    assert made == [NAME, FILES_NAME, "coadapt-job-j-2", "coadapt-job-j-3"]
    assert [actors.nodes[name] for name in made] == ["ab" * 28, "ab" * 28, "cd" * 28, "cd" * 28]
    assert {told.head_node for told in actors.told if not isinstance(told, str)} == {"ab" * 28}


def test_at_the_end_executors_go_that_do_not_tell_the_rest_in_time(executors: Executors, actors: Actors) -> None:
    jobs = [job(), job(id="j-2")]
    for each in jobs:
        executors.assign(each, (A,), 1)
    executors.drain(WAIT_S)
    actors.silent = True
    actors.there.add(FILES_NAME)
    executors.end_all(jobs, 0.1)
    ended = {asked[1] for asked in actors.asked if asked[0] == "kill"}
    assert ended == {NAME, "coadapt-job-j-2", FILES_NAME}
