"""A function of a notebook becomes a script by its source, with what it uses, or is refused in one sentence."""

from __future__ import annotations

import json
import math
import os.path as paths
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coadapt.client.functions import free_names, script_of, submit
from coadapt.client.package import Packer
from coadapt.core.doors import Door
from coadapt.core.errors import FunctionError
from coadapt.core.job import JobSpec

RATE = 0.5
HANDLE = sys.stdout


class Scale:
    factor = RATE

    def of(self, value: float) -> float:
        return paths.getsize(__file__) * 0 + value * self.factor


def half(value: float) -> float:
    return Scale().of(value)


def show(*values: float, word: str = "is", table: dict[str, Any] | None = None) -> None:
    print(json.dumps([word, [half(value) for value in values], math.floor(2.5), table]))


def prepares() -> None:
    import coadapt

    coadapt.prepare()


def unheard_of() -> None:
    print(nowhere)  # noqa: F821


def takes_handle() -> None:
    HANDLE.write("x")


def test_the_script_computes_what_the_function_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments: dict[str, Any] = {"word": "says 'it'", "table": {"a": [1, (2, None)], "b": float(2)}}
    show(3.0, 5, **arguments)
    script = tmp_path / "show.py"
    script.write_text(script_of(show, (3.0, 5), arguments))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == capsys.readouterr().out


def test_a_name_counts_as_free_only_where_the_piece_does_not_make_it() -> None:
    source = "def f(a, b=default) -> kind:\n    import os\n    c = a\n    return [g(x, os, c) for x in h]\n"
    assert free_names(source) == {"default", "kind", "g", "h"}


def around() -> Callable[[], None]:
    rate = 1.0

    def inner() -> None:
        print(rate)

    return inner


@pytest.mark.parametrize(
    ("function", "args", "told"),
    [
        (lambda: None, (), "submit: <lambda> is no function with a name, defined by def"),
        (Scale(), (), "submit: a Scale is no function with a name, defined by def"),
        (around(), (), "submit: inner uses rate of the function around it; pass it instead"),
        (unheard_of, (), "submit: unheard_of uses nowhere, which is not defined here"),
        (takes_handle, (), "submit: takes_handle uses HANDLE, which is "),
        (show, (object(),), "submit: argument 1 is a object; a function is called with numbers, text, None, and"),
        (
            show,
            (float("nan"),),
            "submit: argument 1 is a float; a function is called with numbers, text, None, and",
        ),
    ],
)
def test_what_makes_no_script_is_refused_in_one_sentence(
    function: Callable[..., Any], args: tuple[Any, ...], told: str
) -> None:
    with pytest.raises(FunctionError) as refused:
        script_of(function, args, {})
    assert str(refused.value).startswith(told)


def test_a_function_whose_source_is_not_known_is_refused() -> None:
    made: dict[str, Any] = {}
    exec("def ghost():\n    pass\n", made)
    with pytest.raises(FunctionError, match=r"^submit: the source of ghost cannot be found$"):
        script_of(made["ghost"], (), {})


class Taking:
    """A client that keeps what it is given."""

    def __init__(self) -> None:
        self.spec: JobSpec | None = None
        self.script = ""
        self.sent: list[str] = []

    def submit(self, spec: JobSpec, *, tell: Callable[[str], None]) -> str:
        self.spec, self.script = spec, (Path(spec.working_dir) / spec.script).read_text()
        package, _ = Packer(1).of(spec)
        self.sent = sorted(package.items)
        for sentence in package.left_behind:
            tell(sentence)
        return f"{spec.name}-1"


def test_a_function_is_submitted_as_the_job_that_it_is() -> None:
    taking: Any = Taking()
    assert submit(show, 1.0, word="now", client=taking, job={"resources": {"gpus": 2}}) == "show-1"
    assert (taking.spec.door, taking.spec.script, taking.spec.resources.gpus) == (Door.PLAIN, "show.py", 2)
    assert taking.script.endswith("    show(1.0, word='now')\n")
    submit(prepares, client=taking, job={"name": "n", "resources": {"max_gpus": 2}})
    assert (taking.spec.door, taking.spec.name, taking.spec.resources.max_gpus) == (Door.NATIVE, "n", 2)
    assert not Path(taking.spec.working_dir).exists(), "nothing is left behind"


def imports_beside() -> None:
    import beside
    from package import inner

    print(beside.value, inner.value)


def clashes(files: list[str]) -> None:
    print(files)


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a notebook with modules and data beside it, in which the kernel runs."""
    here = tmp_path / "here"
    (here / "package").mkdir(parents=True)
    (here / "data").mkdir()
    for name in ("beside.py", "package/__init__.py", "package/inner.py", "show.py"):
        (here / name).write_text(f"value = {name!r}\n")
    (here / "data" / "rows.csv").write_text("1\n")
    (here / ".env").write_text("secret")
    (tmp_path / "shared.py").write_text("value = 2\n")
    monkeypatch.chdir(here)
    return here


def test_files_beside_the_notebook_travel_at_their_places(notebook: Path) -> None:
    taking: Any = Taking()
    files = ["beside.py", notebook / "package", "data/rows.csv", "../shared.py"]
    submit(imports_beside, client=taking, files=files)
    assert taking.sent == [
        *("beside.py", "data", "data/rows.csv", "imports_beside.py", "package", "package/__init__.py"),
        *("package/inner.py", "shared.py"),
    ]


def test_a_function_imports_what_travels(notebook: Path, tmp_path: Path) -> None:
    class Running(Taking):
        def submit(self, spec: JobSpec, *, tell: Callable[[str], None]) -> str:
            run = [sys.executable, spec.script]
            return subprocess.run(run, cwd=spec.working_dir, capture_output=True, text=True, check=True).stdout

    running: Any = Running()
    said = submit(imports_beside, client=running, files=["beside.py", "package"])
    assert said == "beside.py package/inner.py\n"


def test_a_whole_folder_travels_without_its_secrets_and_beside_a_file_named_like_the_function(
    notebook: Path,
) -> None:
    taking: Any = Taking()
    with pytest.warns(UserWarning, match=r"^secrets stay behind: \.env"):
        assert submit(show, 1.0, client=taking, job={"working_dir": "."}) == "show-1"
    assert taking.spec.script == "show_job.py"
    assert {"show.py", "show_job.py", "data/rows.csv", "package/inner.py"} < set(taking.sent)
    assert ".env" not in taking.sent


def test_a_module_beside_the_notebook_that_does_not_travel_is_told(notebook: Path) -> None:
    taking: Any = Taking()
    told = r"^imports_beside imports package, which does not travel; files=\['package'\] sends it$"
    with pytest.warns(UserWarning, match=told):
        submit(imports_beside, client=taking, files=["beside.py"])


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["no.py"], "files: no.py does not exist in {here}"),
        ("beside.py", "files: 'beside.py' is one path; give a list, as ['beside.py']"),
        (["."], "files: . is the current folder or around it; give working_dir, in job"),
        (["data/rows.csv", "data"], ""),
        (["../data", "data"], "files: ../data and another one would both be data beside the function"),
    ],
)
def test_files_that_cannot_travel_are_refused_in_one_sentence(files: Any, told: str, notebook: Path) -> None:
    (notebook.parent / "data").mkdir()
    taking: Any = Taking()
    if not told:
        submit(show, client=taking, files=files)
        assert "data/rows.csv" in taking.sent
        return
    with pytest.raises(FunctionError) as refused:
        submit(show, client=taking, files=files)
    assert str(refused.value) == told.format(here=notebook)
    assert taking.spec is None


def test_files_that_are_too_large_are_refused_with_the_largest(notebook: Path) -> None:
    with (notebook / "data" / "large.bin").open("wb") as file:
        file.truncate(5 << 20)
    taking: Any = Taking()
    with pytest.raises(
        FunctionError, match=r"^files: they have more than 4 MiB, at most 1 MiB are sent; largest: "
    ):
        submit(show, client=taking, files=["data"])


def test_a_function_whose_argument_submit_would_take_is_refused() -> None:
    with pytest.raises(
        FunctionError, match=r"^submit: clashes has an argument files, as submit itself; rename it$"
    ):
        submit(clashes, ["a"])
