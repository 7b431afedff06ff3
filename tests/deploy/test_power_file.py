"""The file of `coadapt up --power`: what is wrong with one is said in a sentence, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.deploy.power_file import PowerFileError, load

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


BAD = [
    (
        GOOD.replace('[python, -c, pass, "{machine}"]\nwake', '"ipmitool -H {machine}-bmc power off"\nwake'),
        "sleep: 'ipmitool -H {machine}-bmc power off' is text; give a list of words, such as [ipmitool",
    ),
    (
        GOOD.replace('sleep: [python, -c, pass, "{machine}"]', "sleep: [poweroff]"),
        "sleep: none of the words ['poweroff'] has {machine}, which stands for the machine's name",
    ),
    (
        GOOD.replace('sleep: [python, -c, pass, "{machine}"]', 'sleep: ["{machine}"]'),
        "sleep: the program '{machine}' is named by {machine}; only its arguments may be",
    ),
    (GOOD.replace("sleep: [python", "sleep: [no-such-program"), "sleep: there is no program no-such-program here"),
    (GOOD.replace("sleep: [python", "sleep: [/etc/passwd"), "sleep: there is no program /etc/passwd here"),
    (GOOD.replace('sleep: [python, -c, pass, "{machine}"]', "sleep: []"), "sleep: [] is not a list of words"),
    (GOOD.replace("sleep:", "slep:"), "slep: unknown field; known: adapter, sleep"),
    ("adapter: command\n", "sleep: missing; adapter 'command' needs sleep, wake and state"),
    ("adapter: emulated\nwake: [w, '{machine}']\n", "wake: is only for adapter 'command', not 'emulated'"),
    ("adapter: magic\n", "adapter: magic is not one of command, autoscaler, emulated"),
    ("keep: 1\n", "adapter: missing; one of command, autoscaler, emulated"),
    ("adapter: emulated\nkeep: -1\n", "keep: -1 is not a number of at least 0"),
    ("adapter: emulated\nkeep: {a100: -1}\n", "keep.a100: -1 is not a number of at least 0"),
    ("adapter: emulated\nidle_watts: -5\n", "idle_watts: -5 is not a number of at least 0"),
    ("adapter: emulated\nwake_limit_s: 0\n", "wake_limit_s: 0 is not a number above 0"),
    ("adapter: emulated\nboot_s: .nan\n", "boot_s: NaN is not a finite number"),
    ("adapter: emulated\ntries: 0\n", "tries: 0 is not a number of at least 1"),
    ("- a\n", "is not a mapping of fields"),
    ("adapter: [\n", "power.yaml: "),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PowerFileError) as told:
        load(written(tmp_path, text))
    assert said in str(told.value)
    assert "\n" not in str(told.value)


def test_up_says_it_by_its_option_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path / "home"))
    for path, more, said in (
        (tmp_path / "nowhere.yaml", ["--emulate", "t4:1"], "cannot be read: No such file or directory"),
        (
            written(tmp_path, "adapter: emulated\n"),
            ["--address", "auto"],
            "adapter: emulated is only for --emulate",
        ),
    ):
        assert main.run(["up", *more, "--power", str(path)]) == Exit.USAGE
        assert capsys.readouterr().err == f"coadapt: --power: {path}: {said}\n"
    assert not (tmp_path / "home").exists()
