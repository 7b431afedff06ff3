"""What a client sends: each folder once, and nothing of a fork that would be refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from coadapt.client.client import Client
from coadapt.client.user_name import user_name
from coadapt.core.errors import JobStateError, PackageError
from coadapt.core.job import JobSpec
from coadapt.core.settings import Settings

NODE = {"id": "n", "gpu_type": "t4", "gpus": 4, "cpus": 8.0, "memory_gib": 32.0, "pool": ""}
SCRIPT = "import coadapt\ncoadapt.prepare()\n"


class Recorded(Client):
    """A client whose calls are answered here."""

    def __init__(self, forked: Mapping[str, Any]) -> None:
        super().__init__(None, Settings())
        self.forked, self.calls, self.packages = forked, list[tuple[Any, ...]](), dict[str, bytes]()

    def call(self, method: str, *args: Any) -> Any:
        self.calls.append((method, *args))
        match method:
            case "would_fork":
                return {"steps": 5, "refused": [], "notes": [], **self.forked}
            case "cluster":
                return {"nodes": [NODE], "asleep": []}
            case "describe":
                return {"spec": {"name": "a", "script": "train.py"}}
            case "has_package":
                return args[0] in self.packages
            case "put_package":
                self.packages[args[0]] = args[1]
        return f"id-{len(self.calls)}"

    def made(self) -> list[str]:
        return [method for method, *_ in self.calls]


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / ".env").write_text("secret")
    return JobSpec(name="a", script="train.py", working_dir=str(tmp_path))


def test_jobs_of_one_folder_are_packed_once_and_what_stays_behind_is_told_once(
    spec: JobSpec, tmp_path: Path
) -> None:
    client, told = Recorded({}), list[tuple[str, str]]()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "train.py").write_text(SCRIPT)
    elsewhere = spec.model_copy(update={"name": "c", "working_dir": str(tmp_path / "b")})
    again = spec.model_copy(update={"name": "b", "args": ["2"]})
    assert len(set(client.submit_all([spec, again, elsewhere], tell=lambda *words: told.append(words)))) == 3
    assert [name for name, _ in told] == ["a"]
    submitted = [args for method, *args in client.calls if method == "submit"]
    assert [package for _, package, *_ in submitted[:2]] == [submitted[0][1]] * 2
    assert len(client.packages) == 2
    assert len({script for *_, script, _ in submitted}) == 3, "other arguments train something else"
    assert {owner for *_, owner in submitted} == {user_name()}, "whose jobs are alike is known"


def test_a_script_that_stays_behind_is_refused_though_its_folder_was_packed(spec: JobSpec, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(SCRIPT)
    (tmp_path / ".coadaptignore").write_text("other.py\n")
    client = Recorded({})
    with pytest.raises(PackageError, match=r"^script: other.py stays behind"):
        client.submit_all([spec, spec.model_copy(update={"script": "other.py"})])
    assert "submit" not in client.made()


def test_a_fork_that_would_be_refused_sends_nothing(spec: JobSpec) -> None:
    client = Recorded({"steps": None, "refused": ["a-1 has no checkpoint yet"]})
    with pytest.raises(JobStateError, match=r"^a-1 has no checkpoint yet$"):
        client.fork("a-1", job=spec)
    assert client.made() == ["would_fork"]


def test_a_fork_tells_what_may_not_fit_and_goes_on(spec: JobSpec) -> None:
    client, told = Recorded({"notes": ["script: other"]}), list[str]()
    client.fork("a-1", 5, spec, tell=told.append)
    assert told[0] == "script: other"
    method, job, steps, _, changed = client.calls[-1]
    assert (method, job, steps, set(changed)) == ("fork", "a-1", 5, {"spec", "package", "script_key"})


def test_a_check_of_a_fork_says_sizes_the_step_and_what_may_not_fit(spec: JobSpec) -> None:
    client = Recorded({"notes": ["script: other"]})
    found = client.check_fork("a-1", 5, spec)
    assert (found["sizes"], found["refused"]) == ({"t4": [1, 2, 3, 4]}, [])
    assert found["notes"][:2] == ["it starts from the checkpoint of step 5", "script: other"]
    same = client.check_fork("a-1")
    assert (same["job"], same["notes"][0]) == ("a-1", "it starts from the checkpoint of step 5")
    refused = Recorded({"steps": None, "refused": ["a-1 has no checkpoint yet"]}).check_fork("a-1", None, spec)
    assert refused["refused"] == ["a-1 has no checkpoint yet"]
    assert not any("checkpoint of step" in note for note in refused["notes"])
    assert not {"submit", "fork", "put_package"} & set(client.made())


def test_a_check_of_a_fork_with_a_bad_file_tells_its_problems(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: a\nscrpt: train.py\n")
    found = Recorded({}).check_fork("a-1", None, tmp_path / "job.yaml")
    assert found["refused"][0] == "scrpt: unknown field; did you mean script?"
