"""In a namespace a process sees a machine that it can read, folders that it can write, and no other process."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from coadapt.executor.sandbox import bubblewrap
from coadapt.executor.sandbox.bubblewrap import arguments, exit_code, hidden_folders

needs_bwrap = pytest.mark.skipif(bool(bubblewrap.problem()), reason=bubblewrap.problem() or "never")


def told(command: list[str], **folders: list[str]) -> list[str]:
    own = folders.get("own", ["/jobs/j-1"])
    return arguments(
        command, "/jobs/j-1", hidden=folders.get("hidden", []), shown=folders.get("shown", []), own=own, tmp="/t"
    )


def test_the_machine_is_read_only_and_processes_are_its_own() -> None:
    words = told(["python", "train.py"])
    assert words[:7] == [
        *("bwrap", "--unshare-user", "--unshare-pid", "--die-with-parent"),
        *("--ro-bind", "/", "/"),
    ]
    assert words[-5:] == ["--chdir", "/jobs/j-1", "--", "python", "train.py"]


def test_what_is_hidden_comes_before_what_is_shown_inside_of_it_and_own_folders_come_last() -> None:
    words = " ".join(
        told(["x"], hidden=["/home/a", "/home/a/.coadapt"], shown=["/home/a/.venv"], own=["/home/a/w/j-1"])
    )
    order = [
        "--tmpfs /home/a",
        "--bind /t /tmp",
        "--ro-bind /home/a/.venv",
        "--bind /home/a/w/j-1 /home/a/w/j-1",
    ]
    assert sorted(order, key=words.index) == order
    assert "--tmpfs /home/a/.coadapt" not in words, "it is hidden with the folder around it"


def test_home_state_and_sockets_are_hidden(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    found = hidden_folders({"HOME": str(tmp_path)}, str(state), "/tmp")
    assert {str(tmp_path), str(state), "/tmp"} <= set(found)
    assert hidden_folders({"HOME": "/"}, "", "/tmp")[0] == "/tmp"


@pytest.mark.parametrize(("code", "meant"), [(0, 0), (1, 1), (137, -9), (143, -15), (255, 255)])
def test_a_signal_is_told_as_one(code: int, meant: int) -> None:
    assert exit_code(code) == meant


def test_a_machine_without_bubblewrap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert bubblewrap.problem() == (
        "isolation: namespace needs the program bwrap (package bubblewrap), which is not here"
    )


@needs_bwrap
def test_a_program_writes_its_own_folder_sees_no_secret_and_no_other_process(tmp_path: Path) -> None:
    work, secrets = tmp_path / "work", tmp_path / "secrets"
    tmp = work / "tmp"
    for folder in (work, tmp, secrets):
        folder.mkdir()
    (secrets / "token").write_text("0123")
    script = f"""
        echo result > {work}/result; cat {secrets}/token; ls /proc | grep -c '^[0-9]'; touch /etc/mine; ls /tmp
        kill -0 {os.getpid()}; echo left > /tmp/left
    """
    command = arguments(
        ["sh", "-c", script], str(work), hidden=[str(secrets)], shown=[], own=[str(work)], tmp=str(tmp)
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (work / "result").read_text() == "result\n"
    assert "0123" not in done.stdout
    assert int(done.stdout.split()[0]) < 6
    assert "No such process" in done.stderr
    assert "Read-only file system" in done.stderr
    assert (tmp / "left").exists()
