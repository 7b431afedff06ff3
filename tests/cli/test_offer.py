"""`coadapt submit train.py` offers the job file that is missing, and never writes over one."""

from pathlib import Path

import pytest
from coadapt.cli import main, offer
from coadapt.cli.exit_codes import Exit
from coadapt.client import jobfile
from coadapt.core.doors import Door
from coadapt.core.job import Emulation


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a script to the present folder, such as `mnist/main.py`."""
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "main.py").write_text("import coadapt\ncoadapt.prepare()\n")
    monkeypatch.chdir(tmp_path)
    return Path("mnist/main.py")


def submitted(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main.run(["submit", *arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


def test_without_a_terminal_one_sentence_gives_the_exact_command(script: Path, capsys) -> None:
    assert submitted(capsys, str(script)) == (
        Exit.USAGE,
        "coadapt: mnist/main.py: is a Python script, and submit takes job files; "
        "`coadapt submit mnist/main.py --write` writes mnist/job.yaml for it\n",
    )
    assert not Path("mnist/job.yaml").exists()


def test_write_makes_a_good_job_file_beside_the_script_and_submits_nothing(script: Path, capsys) -> None:
    assert submitted(capsys, str(script), "--write") == (
        Exit.OK,
        "coadapt: mnist/job.yaml is written; look it over, then `coadapt submit mnist/job.yaml`\n",
    )
    spec = jobfile.load("mnist/job.yaml")
    assert (spec.name, spec.script, spec.emulation) == ("mnist", "main.py", Emulation())


def test_a_script_that_never_prepares_gets_the_job_file_of_a_plain_job(script: Path, capsys) -> None:
    script.write_text("print('trains by itself')\n")
    assert submitted(capsys, str(script), "--write")[0] == Exit.OK
    spec = jobfile.load("mnist/job.yaml")
    assert (spec.door, spec.resources.gpus, spec.script) == (Door.PLAIN, 1, "main.py")
    assert main.run(["check", "mnist/job.yaml"]) == Exit.OK
    assert capsys.readouterr().out == (
        "main.py is started as it is; only scripts that call coadapt.prepare are tried\n"
        "  a plain job: its program runs unchanged at one size\n"
    )


def test_a_job_file_that_is_there_is_named_and_never_written_over(script: Path, capsys) -> None:
    Path("mnist/job.yaml").write_text("name: own\nscript: main.py\n")
    assert submitted(capsys, str(script), "--write") == (
        Exit.USAGE,
        "coadapt: mnist/main.py: is a Python script; its job file is there: `coadapt submit mnist/job.yaml`\n",
    )
    assert Path("mnist/job.yaml").read_text().startswith("name: own")


def test_beside_another_scripts_job_file_it_gets_one_of_its_own_name(script: Path, capsys) -> None:
    Path("mnist/other.py").write_text("")
    Path("mnist/job.yaml").write_text("name: other\nscript: other.py\n")
    code, told = submitted(capsys, str(script), "--write")
    assert (code, Path("mnist/main.yaml").exists()) == (Exit.OK, True)
    assert "mnist/main.yaml is written" in told
    Path("mnist/main.yaml").write_text("name: other\nscript: other.py\n")
    code, told = submitted(capsys, str(script), "--write")
    assert code == Exit.USAGE
    assert "mnist/job.yaml and mnist/main.yaml are other jobs' and are not written over" in told


@pytest.mark.parametrize(("typed", "code"), [("y", Exit.OK), ("n", Exit.USAGE)])
def test_in_a_terminal_it_is_shown_and_asked_for(
    script: Path, capsys, monkeypatch, typed: str, code: Exit
) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return typed == "y"

    monkeypatch.setattr("typer.confirm", confirm)
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    found, told = submitted(capsys, str(script))
    assert (found, asked, Path("mnist/job.yaml").exists()) == (code, ["Write it?"], typed == "y")
    assert "name: mnist\nscript: main.py\nemulation:" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["missing.py", "--write"], "missing.py: cannot be read: it is not there"),
        (["mnist/main.py", "mnist/main.py"], "is a Python script, and no job file; `coadapt submit mnist/main.py"),
        (["job.yaml", "--write"], "--write takes one Python script"),
    ],
)
def test_what_is_no_single_script_gets_one_sentence(script: Path, capsys, arguments: list[str], told: str) -> None:
    code, said = submitted(capsys, *arguments)
    assert code == Exit.USAGE
    assert told in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("nets/gpt/train.py", "gpt"),
        ("nets/gpt/sample.py", "sample"),
        ("my nets (2)/main.py", "my-nets-2"),
        ("nets/_hidden.py", "hidden"),
        ("nets/été.py", "t"),
        ("nets/日本.py", "job"),
        (f"nets/{'x' * 90}.py", "x" * 63),
    ],
)
def test_the_name_is_the_scripts_or_its_folders_and_always_good(tmp_path: Path, path: str, name: str) -> None:
    script = tmp_path / path
    script.parent.mkdir(parents=True)
    script.write_text("import coadapt\n")
    assert offer.name_for(script) == name
    found = offer.offer(script)
    found.write()
    assert jobfile.load(found.path).script == script.name
