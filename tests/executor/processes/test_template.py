"""A training process that a template forks is like one started anew, and nothing of either outlives its use."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from coadapt.executor.processes import template, template_client
from coadapt.executor.processes.template_wire import Owner, template_key
from coadapt.executor.processes.training_process import Launch, TrainingProcess
from coadapt.executor.protocol.messages import Crashed
from coadapt.executor.protocol.worker_events import Exited, Output, Started
from coadapt.executor.sandbox.environment import built

SESSION = f"test-{uuid.uuid4().hex}"
WAIT_S = 60.0

LOOK = """
import atexit, json, os, random, signal, sys, tempfile, time
import numpy as np
atexit.register(print, "the script's own exit handler")
print(json.dumps({
    "argv": sys.argv, "cwd": os.getcwd(), "path": sys.path[:2], "main": __name__, "file": __file__,
    "env": dict(os.environ), "zone": time.tzname[0], "temp": tempfile.gettempdir(),
    "leader": os.getsid(0) == os.getpid(), "stdin": os.read(0, 1) == b"",
    "fds": [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{n}")],
    "ignored": [s.name for s in signal.Signals if signal.getsignal(s) == signal.SIG_IGN],
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "drawn": [random.random(), np.random.rand()], "pid": os.getpid(), "template": os.getppid(),
}))
"""


def owner() -> Owner:
    return Owner(SESSION, os.getpid())


class Run:
    """A training process in a thread of its own, and everything it emitted."""

    def __init__(self, script: Path, *args: str, env: dict[str, str] | None = None, **launch: Any) -> None:
        self.events: list[Any] = []
        self._changed = threading.Condition()
        env = {"OMP_NUM_THREADS": "1", **(env or {})}
        launch = {"cwd": str(script.parent), "owner": owner()} | launch
        self.process = TrainingProcess(Launch(str(script), args, env, **launch), self._emit)
        self.thread = threading.Thread(target=self.process.run)
        self.thread.start()

    def _emit(self, event: object) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def said(self, text: str) -> str:
        """Return the first line with a text in it."""
        with self._changed:
            found = lambda: next((line for line in self.lines if text in line), "")  # noqa: E731
            assert self._changed.wait_for(lambda: bool(found()), timeout=WAIT_S), self.events
            return found()

    def end(self) -> Exited:
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()
        last = self.events[-1]
        assert isinstance(last, Exited)
        return last

    @property
    def pid(self) -> int:
        return next(event.pid for event in self.events if isinstance(event, Started))

    @property
    def lines(self) -> list[str]:
        return "".join(event.text for event in self.events if isinstance(event, Output)).splitlines()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(program: str, *args: str, **options: Any) -> Run:
        script = tmp_path / "train.py"
        script.write_text(program)
        runs.append(Run(script, *args, **options))
        return runs[-1]

    yield begin
    for one in runs:
        one.process.kill()
        one.thread.join(30)


def look(run: Callable[..., Run], *args: str, **options: Any) -> dict[str, Any]:
    """Return what a script sees of its process."""
    one = run(LOOK, *args, **options)
    one.end()
    return json.loads(one.lines[0])


def is_template(pid: int) -> bool:
    return "coadapt.executor.processes.template" in psutil.Process(pid).cmdline()


def number_in(lines: Iterable[str], before: str) -> int:
    """Return the first number that comes after these words."""
    found = (re.search(rf"{before}(\d+)", line) for line in lines)
    return next(int(match[1]) for match in found if match)


def gone(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=WAIT_S)


def test_a_script_finds_the_process_it_would_find_alone(run, tmp_path: Path) -> None:
    seen = look(run, "--lr", "0.1", env={"TZ": "XYZ+3", "TMPDIR": str(tmp_path), "GREETING": "hello"})
    assert is_template(seen["template"])
    script = str(tmp_path / "train.py")
    assert (seen["argv"], seen["cwd"], seen["main"]) == ([script, "--lr", "0.1"], str(tmp_path), "__main__")
    assert (seen["path"][0], seen["file"]) == (str(tmp_path), script)
    assert (seen["zone"], seen["temp"], seen["env"]["GREETING"]) == ("XYZ", str(tmp_path), "hello")
    assert seen["leader"]
    assert seen["stdin"]
    assert seen["interrupt"]
    assert (seen["ignored"], seen["blocked"]) == (["SIGPIPE", "SIGXFSZ"], 0)
    kinds = sorted(name.split(":")[0] for name in seen["fds"])
    assert kinds == ["/dev/null", "pipe", "pipe", "socket"]


def test_without_a_folder_of_its_own_it_runs_where_the_worker_is(run, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    seen = look(run, cwd=None)
    assert is_template(seen["template"])
    assert seen["cwd"] == str(tmp_path / "elsewhere")


def test_a_process_imports_nothing_of_ours_or_torchs_that_the_template_has_not(run) -> None:
    listed = (
        "\nprint('modules', *(m for m in sys.modules if m.partition('.')[0] in ('coadapt', 'torch', 'numpy')))"
    )
    job = run("import sys" + listed)
    job.end()
    start = "import sys; from coadapt.executor.processes.template import load; load()"
    loaded = subprocess.run([sys.executable, "-c", start + listed], capture_output=True, text=True, check=True)
    assert set(job.said("modules").split()) <= set(loaded.stdout.split())


def test_its_environment_is_what_was_given_and_nothing_of_another_job(run) -> None:
    first = look(run, env={"SECRET": "mine"})
    second = look(run, env={"GREETING": "hello"})
    assert first["template"] == second["template"]
    torchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    given = built(os.environ, {"OMP_NUM_THREADS": "1", "GREETING": "hello"}, home=second["cwd"])
    assert {n: v for n, v in second["env"].items() if n not in torchrun} == {
        n: v for n, v in given.items() if n not in torchrun
    }


MEMORY = """
import os, re
word = "".join(["of-", "another", "-job"]).encode()
found = 0
for line in open("/proc/self/maps"):
    start, end, rights = re.match(r"(\\w+)-(\\w+) (\\S+)", line).groups()
    if rights.startswith("rw"):
        with open("/proc/self/mem", "rb") as memory:
            memory.seek(int(start, 16))
            try:
                found += memory.read(int(end, 16) - int(start, 16)).count(b"a-secret-" + word)
            except OSError:
                pass
print("found", found, os.getppid())
"""


def test_nothing_that_a_job_was_given_is_in_the_memory_of_the_next_one(run) -> None:
    secret = "a-secret-of-another-job"
    first = look(run, secret, env={"SECRET": secret})
    one = run(MEMORY)
    _, found, parent = one.said("found").split()
    assert (found, int(parent)) == ("0", first["template"])


def test_what_it_draws_at_random_is_its_own(run) -> None:
    first, second = look(run)["drawn"], look(run)["drawn"]
    assert not set(first) & set(second)


def test_exit_handlers_of_the_script_run_once_and_none_of_another(run) -> None:
    one = run("import atexit; atexit.register(print, 'bye')")
    assert one.end() == Exited(1)  # it never called prepare
    assert one.lines.count("bye") == 1
    other = run("print('hello')")
    other.end()
    assert "bye" not in other.lines


def test_folders_to_import_from_come_after_the_scripts_own_and_are_handed_on(run, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "helper.py").write_text("WORD = 'found'")
    program = "import subprocess, sys, helper; print(helper.WORD, flush=True)\n"
    program += "subprocess.run([sys.executable, '-c', 'import helper; print(2 * helper.WORD)'])"
    one = run(program, paths=[str(shared)])
    one.end()
    assert one.lines[:2] == ["found", "foundfound"]


def test_a_relative_pythonpath_is_meant_from_where_the_script_runs(run, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "helper.py").write_text("WORD = 'found'")
    environment = os.pathsep.join(["src", *filter(None, [os.environ.get("PYTHONPATH")])])
    one = run("import helper, os; print(helper.WORD, os.getppid())", env={"PYTHONPATH": environment})
    _, parent = one.said("found").split()
    assert is_template(int(parent))
    other = run("import os; print('from', os.getppid())")
    assert other.said("from").split()[1] == parent, "the same libraries, the same template"


def test_it_is_shown_with_its_own_command_line_and_environment(run) -> None:
    one = run("import time; print('up', flush=True); time.sleep(600)", "--lr", "0.1", env={"GREETING": "hello"})
    one.said("up")
    process = psutil.Process(one.pid)
    shown = [word for word in process.cmdline() if word]
    assert shown[1:4] == ["-u", "-m", "coadapt.executor.training.process"]
    assert shown[5:] == ["--lr", "0.1"]
    assert process.environ()["GREETING"] == "hello"


def test_another_value_of_what_libraries_are_loaded_with_is_another_template(run) -> None:
    assert look(run)["template"] == look(run)["template"]
    other = look(run, env={"OMP_NUM_THREADS": "2"})
    assert other["env"]["OMP_NUM_THREADS"] == "2"
    assert other["template"] != look(run)["template"]
    key = template_key({"OMP_NUM_THREADS": "1", "COLOR": "red"}, SESSION)
    assert key == template_key({"OMP_NUM_THREADS": "1", "COLOR": "blue"}, SESSION)
    assert key != template_key({"OMP_NUM_THREADS": "1"}, "another session")
    set_by_a_library = {"OMP_NUM_THREADS": "1", "KMP_DUPLICATE_LIB_OK": "True"}
    assert key == template_key(set_by_a_library, SESSION)


@pytest.mark.parametrize(
    ("program", "ending"),
    [
        ("import os; os._exit(7)", Exited(7)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", Exited(-signal.SIGSEGV)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", Exited(-signal.SIGTERM)),
    ],
)
def test_its_exit_status_or_signal_is_known(run, program: str, ending: Exited) -> None:
    assert run(program).end() == ending


def test_an_error_of_the_script_comes_with_its_traceback_and_none_of_our_frames(run) -> None:
    one = run("raise ValueError('no data')\n")
    one.end()
    crashed = next(event for event in one.events if isinstance(event, Crashed))
    assert crashed.summary == "ValueError: no data"
    assert "train.py" in crashed.traceback
    assert "coadapt" not in crashed.traceback


STARTS_ANOTHER = """
import subprocess, time
print("other", subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)
"""


def test_a_kill_ends_it_and_what_it_started(run) -> None:
    one = run(STARTS_ANOTHER)
    other = int(one.said("other").split()[1])
    one.process.kill()
    assert one.end() == Exited(-9)
    gone(other)


def test_the_death_of_whoever_asked_for_it_ends_it_and_what_it_started(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(STARTS_ANOTHER)
    asks = f"""
import sys
from coadapt.executor.processes.template_wire import Owner
from coadapt.executor.processes.training_process import Launch, TrainingProcess
launch = Launch({str(script)!r}, (), {{"OMP_NUM_THREADS": "1"}}, owner=Owner({SESSION!r}, {os.getpid()}))
TrainingProcess(launch, lambda event: print(event, flush=True)).run()
"""
    with subprocess.Popen([sys.executable, "-c", asks], stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        pid, other = number_in(asker.stdout, "pid="), number_in(asker.stdout, "other ")
        assert is_template(psutil.Process(pid).ppid())
        asker.kill()
    gone(pid)
    gone(other)


def test_the_death_of_the_template_ends_it_and_the_next_one_gets_another(run) -> None:
    one = run(STARTS_ANOTHER)
    other = int(one.said("other").split()[1])
    first = psutil.Process(one.pid).ppid()
    os.kill(first, signal.SIGKILL)
    assert one.end() == Exited(-9)
    gone(other)
    assert look(run)["template"] not in (first, os.getpid())


def test_starts_at_the_same_time_share_one_template(run, tmp_path: Path) -> None:
    session = Owner(uuid.uuid4().hex, os.getpid())
    runs = [run("import os; print('from', os.getppid())", owner=session) for _ in range(4)]
    templates = {one.said("from") for one in runs}
    assert len(templates) == 1
    assert is_template(int(templates.pop().split()[1]))


# --- a template that cannot be had ------------------------------------------------------------------------------


def plain(run: Callable[..., Run], **options: Any) -> None:
    """Check that the process was started as any program, and ran."""
    seen = look(run, **options)
    assert seen["template"] == os.getpid()
    assert seen["leader"]


def test_a_template_that_ends_at_once_fails_nothing_and_is_not_tried_again(run, monkeypatch) -> None:
    tries = []
    monkeypatch.setattr(template_client, "_start", lambda *args: tries.append(args))
    other = Owner(uuid.uuid4().hex, os.getpid())
    plain(run, owner=other)
    plain(run, owner=other)
    assert 1 <= len(tries) <= 2


def test_a_template_that_does_not_answer_is_waited_for_within_bounds(run, monkeypatch) -> None:
    listening = []
    monkeypatch.setattr(
        template_client,
        "_start",
        lambda listener, path, env, python: listening.append(
            socket.fromfd(listener.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
        ),
    )
    monkeypatch.setattr(template_client, "START_S", 0.2)
    monkeypatch.setattr(template_client, "ANSWER_S", 0.2)
    plain(run, owner=Owner(uuid.uuid4().hex, os.getpid()))
    assert listening


def test_a_kill_while_a_template_is_waited_for_is_obeyed(run, monkeypatch) -> None:
    listening = threading.Event()
    kept = []

    def never_answers(listener: socket.socket, *_: object) -> None:
        kept.append(listener.dup())
        listening.set()

    monkeypatch.setattr(template_client, "_start", never_answers)
    one = run(LOOK, owner=Owner(uuid.uuid4().hex, os.getpid()))
    assert listening.wait(WAIT_S)
    one.process.kill()
    assert one.end() == Exited(-9)
    assert not one.lines


def test_a_folder_that_others_can_enter_is_not_used(run, monkeypatch, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(template_client, "template_folder", lambda: folder)
    plain(run)
    assert not list(folder.iterdir())


# --- its own life -----------------------------------------------------------------------------------------------


def served(path: Path, idle_s: float) -> threading.Thread:
    """Serve a template in a thread of this process, which is asked for no fork."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    thread = threading.Thread(target=template.Template(listener, path, idle_s).serve)
    thread.start()
    return thread


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "t.sock"


def test_a_template_that_nobody_uses_ends_and_leaves_no_socket(path: Path) -> None:
    thread = served(path, idle_s=0.05)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert not path.exists()


def test_a_template_ends_with_the_last_of_its_owners(path: Path) -> None:
    thread = served(path, idle_s=600)
    owners = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    for one in owners:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            assert template.receive(connection)[0] == template.READY
            template.send(connection, {"session": "s", "pid": one.pid})
            assert connection.recv(1) == b""
    owners[0].kill()
    owners[0].wait()
    assert thread.is_alive()
    owners[1].kill()
    owners[1].wait()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert not path.exists()


@pytest.mark.parametrize("said", [b"", b"\x00" * 7, (2**40).to_bytes(8, "big"), (2).to_bytes(8, "big") + b"[]"])
def test_whoever_says_what_makes_no_sense_is_hung_up_on(path: Path, said: bytes) -> None:
    thread = served(path, idle_s=0.5)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        template.receive(connection)
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_template_refuses_to_be_forked_where_that_is_not_safe() -> None:
    refuses = (
        "import threading, time\nfrom coadapt.executor.processes.template import _try_a_fork\n{}\n_try_a_fork()"
    )
    thread = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    cuda = "import torch; torch._C._cuda_isInBadFork = lambda: True"
    for made, reason in ((thread, "1 threads run beside the main one"), (cuda, "has touched CUDA")):
        done = subprocess.run(
            [sys.executable, "-c", refuses.format(made)], capture_output=True, text=True, check=False, timeout=60
        )
        assert reason in done.stderr, done.stderr


def test_a_template_is_nobodys_child_and_ends_with_the_process_it_serves(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os; print('template', os.getppid())")
    asks = f"""
import os
from coadapt.executor.processes.template_wire import Owner
from coadapt.executor.processes.training_process import Launch, TrainingProcess
launch = Launch({str(script)!r}, (), {{}}, owner=Owner({uuid.uuid4().hex!r}, os.getpid()))
TrainingProcess(launch, lambda event: print(event, flush=True)).run()
print("children", len(__import__("psutil").Process().children()), flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", asks], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asker:
        assert asker.stdout is not None
        pid = number_in(asker.stdout, "template ")
        assert is_template(pid)
        assert number_in(asker.stdout, "children ") == 0
        asker.kill()
    gone(pid)
