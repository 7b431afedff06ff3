"""The file of `coadapt up --power`: what is wrong with one is said in a sentence, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.deploy.power_file import load

GOOD = """
adapter: command
sleep: [python, -c, pass, "{machine}"]
wake: [python, -c, pass, "{machine}"]
state: [python, -c, "print('on')", "{machine}"]
keep: {a100: 1}
idle_watts: 800
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "power.yaml"
    path.write_text(text)
    return path


def test_a_good_file_is_read(tmp_path: Path) -> None:
    found = load(written(tmp_path, GOOD))
    assert (found.adapter, found.kept("a100"), found.kept("t4"), found.saved_watts("t4")) == (
        "command",
        1,
        0,
        800.0,
    )
    assert load(written(tmp_path, "adapter: emulated\nidle_watts: {a100: 900}\n")).saved_watts("t4") is None


def test_a_program_beside_the_operator_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pw.sh").write_text("#!/bin/sh\n")
    (tmp_path / "pw.sh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    words = "[./pw.sh, '{machine}']"
    settings = load(written(tmp_path, f"adapter: command\nsleep: {words}\nwake: {words}\nstate: {words}\n"))
    assert settings.wake == [str(tmp_path / "pw.sh"), "{machine}"]
