"""The processes of a job are set apart as the operator has chosen, however they are started."""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.doors import Processes
from coadapt.core.isolation import Isolation, uid_of
from coadapt.executor.processes.template_wire import Owner
from coadapt.executor.processes.training_process import Launch, TrainingProcess
from coadapt.executor.programs.command_processes import CommandLaunch
from coadapt.executor.protocol.command_events import Begin, Said, Terminate
from coadapt.executor.protocol.worker_events import Exited, Output
from coadapt.executor.sandbox import bubblewrap
from coadapt.executor.sandbox.line import Line, Sandbox, problem
from coadapt.executor.sandbox.ownership import give, let_pass

from tests.support.command_node import CommandNode

UID = uid_of("j-7")
SESSION = f"line-{uuid.uuid4().hex}"
BEGIN = Begin(1, 0, 1, 0, 1, "127.0.0.1", 29_500)
LOOK = """
import json, os
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(), "env": dict(os.environ), "cwd": os.getcwd(),
    "parent": os.getppid(), "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    "limits": next(line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")),
}), flush=True)
"""

needs_root = pytest.mark.skipif(bool(problem(Isolation.USER)), reason=problem(Isolation.USER) or "never")
needs_bwrap = pytest.mark.skipif(bool(bubblewrap.problem()), reason=bubblewrap.problem() or "never")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a job's folder, with a script in it, on a node that has secrets in its environment."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and len(folder.parts) > 2:
            let_pass(folder)
    folder = tmp_path / "j-7"
    folder.mkdir(mode=0o700)
    (folder / "look.py").write_text(LOOK)
    (folder / "look.py").chmod(0o644)
    return folder


def sandbox(place: Path, isolation: Isolation) -> Sandbox:
    line = Line.of("j-7", isolation, state_dir=str(place.parent))
    give(place, line.uid)
    return Sandbox(line, home=str(place), own=(str(place),))


def trained(place: Path, isolation: Isolation, template: bool) -> dict[str, Any]:
    """Return what a training script sees of its process."""
    said: list[Any] = []
    owner = Owner(SESSION, os.getpid()) if template else None
    env = {"OMP_NUM_THREADS": "1", "COADAPT_JOB_ID": "j-7"}
    launch = Launch(str(place / "look.py"), (), env, str(place), owner=owner, sandbox=sandbox(place, isolation))
    process = TrainingProcess(launch, said.append)
    thread = threading.Thread(target=process.run)
    thread.start()
    thread.join(120)
    process.kill()
    thread.join(30)
    assert isinstance(said[-1], Exited), said
    return json.loads("".join(event.text for event in said if isinstance(event, Output)).splitlines()[0])


def ran(place: Path, isolation: Isolation) -> dict[str, Any]:
    """Return what a command sees of its process."""
    command = (sys.executable, "look.py")
    launch = CommandLaunch("j-7", command, Processes.NODE, 1, 1, cwd=str(place), sandbox=sandbox(place, isolation))
    node = CommandNode(launch)
    node.processes.send(BEGIN)
    assert [event.code for event in node.ended()] == [0], node.output()
    return json.loads(node.output())


STARTS = {
    "forked": lambda place, isolation: trained(place, isolation, template=True),
    "started": lambda place, isolation: trained(place, isolation, template=False),
    "command": ran,
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "isolation",
    [
        Isolation.NONE,
        pytest.param(Isolation.USER, marks=needs_root),
        pytest.param(Isolation.NAMESPACE, marks=needs_bwrap),
    ],
)
def test_no_process_is_given_what_is_the_clusters(start: str, isolation: Isolation, place: Path) -> None:
    seen = STARTS[start](place, isolation)
    assert [name for name in seen["env"] if name.startswith(("RAY_", "AWS_"))] == []
    assert (seen["env"]["HOME"], seen["cwd"]) == (str(place), str(place))


@needs_root
@pytest.mark.parametrize("start", STARTS)
def test_with_isolation_user_each_process_is_the_jobs_user(start: str, place: Path) -> None:
    seen = STARTS[start](place, Isolation.USER)
    assert (seen["uid"], seen["gid"], seen["groups"]) == (UID, UID, [])
    assert seen["env"]["USER"] == f"coadapt-{UID}"


@needs_root
def test_a_template_forks_for_one_user_after_another(place: Path) -> None:
    first, second = trained(place, Isolation.USER, template=True), None
    give(place, 0)
    second = trained(place, Isolation.NONE, template=True)
    assert (first["uid"], second["uid"]) == (UID, os.geteuid())
    assert first["parent"] == second["parent"], "both are of one template"
    assert first["limits"] == "1", "it gains no rights by what it runs"


@needs_bwrap
@pytest.mark.parametrize("start", ["started", "command"])
def test_in_a_namespace_a_process_sees_only_its_own(start: str, place: Path) -> None:
    assert STARTS[start](place, Isolation.NAMESPACE)["processes"] < 6


@needs_bwrap
def test_a_program_in_a_namespace_is_told_to_end_and_may_save(place: Path) -> None:
    (place / "save.py").write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (open('saved', 'w').close(), sys.exit(0)))\n"
        "print('up', flush=True)\ntime.sleep(600)\n"
    )
    apart = sandbox(place, Isolation.NAMESPACE)
    command = (sys.executable, "save.py")
    node = CommandNode(CommandLaunch("j-7", command, Processes.NODE, 1, 1, cwd=str(place), sandbox=apart))
    node.processes.send(BEGIN)
    node.until(lambda event: isinstance(event, Said) and "up" in event.text)
    node.processes.send(Terminate(60.0))
    assert [(event.code, event.overdue) for event in node.ended()] == [(0, False)]
    assert (place / "saved").exists()


def test_a_template_forks_no_process_whose_job_says_how_libraries_are_loaded() -> None:
    user = Sandbox(Line.of("j-7", Isolation.USER))
    assert user.may_fork({"OMP_NUM_THREADS": "4", "LC_ALL": "C.UTF-8"})
    assert not user.may_fork({"PYTHONPATH": "/srv/evil"})
    assert not user.may_fork({"LD_LIBRARY_PATH": "/srv/evil"})
    assert not user.may_fork({"LANG": "../../srv/evil"})
    assert Sandbox(Line.of("j-7", Isolation.NONE)).may_fork({"PYTHONPATH": "/mine"})
    assert not Sandbox(Line.of("j-7", Isolation.NAMESPACE)).may_fork({})


@needs_root
def test_a_machine_on_which_users_can_be_set_apart_has_no_problem() -> None:
    assert problem(Isolation.NONE) == ""
    assert problem(Isolation.USER) == ""


def test_a_relative_path_of_a_job_is_bound_to_no_place_of_the_machine() -> None:
    """Bubblewrap takes it from the root, so that `.` would put a folder over the whole machine."""
    line = Sandbox(Line.of("j-7", Isolation.NAMESPACE), home="/tmp")
    told = line.command(["python"], "/tmp", {"PYTHONPATH": f".:tests::{os.path.dirname(os.__file__)}"})
    places = [told[at + 1] for at, word in enumerate(told) if word in ("--bind", "--ro-bind", "--tmpfs")]
    assert os.path.dirname(os.__file__) in places or sys.base_prefix in places
    assert all(os.path.isabs(path) for path in places)
