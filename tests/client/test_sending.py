"""What a client sends: each folder once, and nothing of a fork that would be refused."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from coadapt.client.client import Client
from coadapt.client.http_api import HttpApi
from coadapt.core.errors import JobStateError, PackageError
from coadapt.core.job import JobSpec
from coadapt.core.settings import Settings

NODE = {"id": "n", "gpu_type": "t4", "gpus": 4, "cpus": 8.0, "memory_gib": 32.0, "pool": ""}
SCRIPT = "import coadapt\ncoadapt.prepare()\n"


class RecordedApi(HttpApi):
    """An API whose requests are answered here."""

    def __init__(self, forked: Mapping[str, Any]) -> None:
        super().__init__("http://api", "")
        self.forked, self.requests, self.packages = forked, list[tuple[str, Any]](), dict[str, bytes]()

    def get(self, path: str, **parameters: Any) -> Any:
        self.requests.append((f"GET {path}", None))
        if path == "/v1/settings":
            return Settings().model_dump(mode="json")
        if path == "/v1/me":
            return {"user": "ann"}
        if path == "/v1/teams":
            return {"teams": {}, "default": None}
        if path == "/v1/cluster":
            return {"nodes": [NODE], "asleep": []}
        if path.startswith("/v1/packages/"):
            return {"there": path.rpartition("/")[2] in self.packages}
        return {"spec": {"name": "a", "script": "train.py"}}

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None) -> Any:
        self.requests.append((f"POST {path}", body))
        if body is not None and body.get("dry_run"):
            return {"steps": 5, "refused": [], "notes": [], **self.forked}
        return {"id": f"id-{len(self.requests)}"}

    def put(self, path: str, content: bytes, media_type: str = "") -> Any:
        self.requests.append((f"PUT {path}", None))
        self.packages[path.rpartition("/")[2]] = content
        return {"there": True}


class Recorded(Client):
    """A client of such an API."""

    def __init__(self, forked: Mapping[str, Any]) -> None:
        self.api = RecordedApi(forked)
        super().__init__(self.api)

    def made(self) -> list[str]:
        """Return what was changed."""
        return [
            what
            for what, body in self.api.requests
            if not what.startswith("GET") and not (body or {}).get("dry_run")
        ]


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
    submitted = [body for what, body in client.api.requests if what == "POST /v1/jobs"]
    assert [body["package"] for body in submitted[:2]] == [submitted[0]["package"]] * 2
    assert len(client.api.packages) == 2
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in client.api.packages.items())
    assert len({body["script_key"] for body in submitted}) == 3, "other arguments train something else"


def test_a_script_that_stays_behind_is_refused_though_its_folder_was_packed(spec: JobSpec, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(SCRIPT)
    (tmp_path / ".coadaptignore").write_text("other.py\n")
    client = Recorded({})
    with pytest.raises(PackageError, match=r"^script: other.py stays behind"):
        client.submit_all([spec, spec.model_copy(update={"script": "other.py"})])
    assert "POST /v1/jobs" not in client.made()


def test_a_fork_that_would_be_refused_sends_nothing(spec: JobSpec) -> None:
    client = Recorded({"steps": None, "refused": ["a-1 has no checkpoint yet"]})
    with pytest.raises(JobStateError, match=r"^a-1 has no checkpoint yet$"):
        client.fork("a-1", job=spec)
    assert client.made() == []


def test_a_fork_tells_what_may_not_fit_and_goes_on(spec: JobSpec) -> None:
    client, told = Recorded({"notes": ["script: other"]}), list[str]()
    client.fork("a-1", 5, spec, tell=told.append)
    assert told[0] == "script: other"
    what, body = client.api.requests[-1]
    assert (what, body["steps"], set(body)) == (
        "POST /v1/jobs/a-1/fork",
        5,
        {"steps", "spec", "package", "script_key"},
    )


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
    assert client.made() == []


def test_a_check_of_a_fork_with_a_bad_file_tells_its_problems(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: a\nscrpt: train.py\n")
    found = Recorded({}).check_fork("a-1", None, tmp_path / "job.yaml")
    assert found["refused"][0] == "scrpt: unknown field; did you mean script?"
