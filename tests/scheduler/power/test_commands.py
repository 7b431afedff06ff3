"""The operator's commands are run without a shell, within their time, and whatever goes wrong is one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from coadapt.core.cluster import Node
from coadapt.scheduler.power.adapter import AdapterError
from coadapt.scheduler.power.autoscaler import Autoscaler, AutoscalerWishes, Wanted
from coadapt.scheduler.power.commands import MARK, Commands, said_on
from coadapt.scheduler.power.machine import Machine

MACHINE = Machine("rack-7; rm -rf /", Node("n", "a100", 4, machine="rack-7; rm -rf /"))


def commands(*words: str, limit_s: float = 20.0) -> Commands:
    return Commands(dict.fromkeys(("sleep", "wake", "state"), words), limit_s)


def test_the_name_of_the_machine_is_one_argument_whatever_is_in_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    commands(
        "python", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", str(out), "<{machine}>"
    ).wake(MACHINE)
    assert out.read_text() == "<rack-7; rm -rf />"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/nowhere/ipmitool", "{machine}"], "wake: /nowhere/ipmitool cannot be run: No such file or directory"),
        (["/etc/passwd", "{machine}"], "wake: /etc/passwd cannot be run: Permission denied"),
        (["python", "-c", "import sys; sys.exit('no route to it')"], "python ended with status 1: no route to it"),
        (["python", "-c", "raise SystemExit(3)"], "wake: python ended with status 3: it printed nothing"),
        (
            ["python", "-c", "import os; os.kill(os.getpid(), 9)"],
            "wake: python was killed by signal 9: it printed nothing",
        ),
        (["python", "-c", "print('x' * 100_000); raise SystemExit(1)"], "ended with status 1: x"),
    ],
    ids=["does not exist", "no program", "fails with a line", "fails without a line", "is killed", "prints a lot"],
)
def test_a_command_that_does_not_work_is_told_with_its_last_line(words: Sequence[str], said: str) -> None:
    with pytest.raises(AdapterError) as told:
        commands(*words).wake(MACHINE)
    assert said in str(told.value)
    assert len(str(told.value)) < 300


def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    script = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); "
    script += "print(p.pid, file=open(sys.argv[1], 'w'), flush=True); p.wait()"
    began = time.monotonic()
    with pytest.raises(AdapterError, match=r"sleep: python did not end in 2 s and was killed"):
        commands("python", "-c", script, str(tmp_path / "pid"), "{machine}", limit_s=2.0).sleep(MACHINE)
    assert time.monotonic() - began < 15.0
    with suppress(psutil.NoSuchProcess):
        psutil.wait_procs([psutil.Process(int((tmp_path / "pid").read_text()))], timeout=10)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("text", "on"),
    [("on\n", True), ("Chassis Power is off\n", False), ("turned ON", True), ("was on, now: OFF", False)],
)
def test_the_state_is_the_last_word_that_is_on_or_off(text: str, on: bool) -> None:
    assert said_on(text) is on


@pytest.mark.parametrize("text", ["", "Unable to establish session\n", "official\n"])
def test_a_state_that_says_neither_is_told(text: str) -> None:
    with pytest.raises(AdapterError, match="state: it printed neither on nor off"):
        said_on(text)


def test_a_command_gets_no_input_to_wait_for() -> None:
    assert commands("python", "-c", "import sys; print('on' if not sys.stdin.read() else 'off')").is_on(MACHINE)
    assert os.environ.get("PATH")


def test_the_autoscaler_is_asked_for_all_nodes_that_shall_be_there() -> None:
    asked: list[object] = []
    released: list[Node] = []
    nodes = [Node("n1", "a100", 8), Node("n2", "t4", 4)]
    scaler = Autoscaler(lambda: nodes, released.append, AutoscalerWishes(lambda **wish: asked.append(wish)))
    scaler.wake(MACHINE)
    assert asked == [
        {
            "bundles": [{"GPU": 8.0}, {"GPU": 4.0}],
            "bundle_label_selectors": [{"coadapt.io/gpu-type": "a100"}, {"coadapt.io/gpu-type": "t4"}],
        }
    ]
    del nodes[0]
    scaler.sleep(MACHINE)
    assert (len(asked), released) == (2, [MACHINE.node]), "a node that is leased is never idle"


def test_an_autoscaler_that_does_not_answer_is_told() -> None:
    def refuse(**wish: object) -> None:
        raise RuntimeError("no autoscaler runs")

    with pytest.raises(AdapterError, match="Ray's autoscaler could not be asked: no autoscaler runs"):
        Autoscaler(list, lambda node: None, AutoscalerWishes(refuse)).wake(MACHINE)


def test_commands_of_a_service_that_was_killed_are_ended_and_those_of_other_clusters_go_on() -> None:
    running = [
        subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark}, start_new_session=True)
        for mark in ("/state/a", "/state/b")
    ]
    try:
        Commands({}, 1.0, "/state/a").end_left_over()
        assert running[0].wait(10) == -signal.SIGKILL
        assert running[1].poll() is None
    finally:
        running[1].kill()
        running[1].wait(10)


def test_what_several_want_of_the_autoscaler_is_sent_together() -> None:
    asked: list[dict[str, object]] = []
    wishes = AutoscalerWishes(lambda **wish: asked.append(wish))
    wishes.wish("power", [Wanted(4, "coadapt.io/gpu-type", "a100")])
    wishes.wish("scaling", [Wanted(1, "coadapt.io/node-type", "t4-spot")] * 2)
    assert asked[-1] == {
        "bundles": [{"GPU": 4.0}, {"GPU": 1.0}, {"GPU": 1.0}],
        "bundle_label_selectors": [
            {"coadapt.io/gpu-type": "a100"},
            {"coadapt.io/node-type": "t4-spot"},
            {"coadapt.io/node-type": "t4-spot"},
        ],
    }
    wishes.wish("scaling", [])
    assert asked[-1]["bundles"] == [{"GPU": 4.0}]
