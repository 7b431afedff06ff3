"""What would happen to a job is said before it is submitted: its door, its sizes, and what is amiss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from coadapt.api.serve import Server
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.cli.submit_check import lines, views
from coadapt.client import answers_schema
from coadapt.client.client import Client
from coadapt.client.http_api import AccessError, HttpApi
from coadapt.client.submit_check import sizes_on, would_happen
from coadapt.core.api_settings import ApiSettings
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec

from tests.support.api import Api

CLUSTER = Cluster((Node("n", "a100", 4), Node("m", "t4", 2), Node("k", "t4", 2), Node("p", "t4", 8, pool="lab")))
SCRIPT = "import coadapt\ncoadapt.prepare()\n"


def job_file(folder: Path, text: str, script: str = SCRIPT) -> Path:
    (folder / "train.py").write_text(script)
    path = folder / "job.yaml"
    path.write_text(f"name: demo\n{text}")
    return path


@pytest.mark.parametrize(
    ("written", "sizes"),
    [
        ({"script": "t.py"}, {"a100": [1, 2, 3, 4], "t4": [1, 2, 3, 4]}),
        ({"script": "t.py", "resources": {"min_gpus": 2, "max_gpus": 3}}, {"a100": [2, 3], "t4": [2, 3]}),
        ({"script": "t.py", "resources": {"gpu_types": ["t4"]}}, {"t4": [1, 2, 3, 4]}),
        ({"script": "t.py", "resources": {"gpus_per_replica": 2}}, {"a100": [2, 4], "t4": [2, 4]}),
        ({"script": "t.py", "resources": {"gpus_per_replica": 4}}, {"a100": [4]}),
        ({"script": "t.py", "resources": {"gpus_per_replica": {"a100": 2}}}, {"a100": [2, 4]}),
        ({"command": ["make"], "resources": {"gpus": 3}}, {"a100": [3], "t4": [3]}),
        ({"command": ["make"], "sizes": [1, 4, 8]}, {"a100": [1, 4], "t4": [1, 4]}),
        ({"command": ["make"], "sizes": {"a100": [1], "t4": [2, 4]}}, {"a100": [1], "t4": [2, 4]}),
        ({"script": "t.py", "pool": "lab", "resources": {"min_gpus": 8}}, {"t4": [8]}),
        ({"script": "t.py", "resources": {"min_gpus": 5}}, {}),
    ],
    ids=str,
)
def test_sizes_are_those_that_the_job_could_have_alone(
    written: dict[str, Any], sizes: dict[str, list[int]]
) -> None:
    assert sizes_on(JobSpec.model_validate({"name": "demo", **written}), CLUSTER) == sizes


def test_a_good_job_would_be_submitted(tmp_path: Path) -> None:
    path = job_file(tmp_path, "script: train.py\nresources: {gpus_per_replica: 2}\n")
    (tmp_path / ".env").write_text("secret")
    found = would_happen(path, CLUSTER, 100)
    assert (found["name"], found["door"], found["refused"]) == ("demo", "native", [])
    assert list(lines(found, "")) == [
        f"{path}: would be submitted",
        "  door: native; for a script that calls coadapt.prepare",
        "  a100: 2 or 4 GPUs",
        "  t4: 2 or 4 GPUs",
        "  note: secrets stay behind: .env (a line such as !NAME in .coadaptignore sends one)",
    ]


def test_an_array_is_told_with_its_number_of_jobs(tmp_path: Path) -> None:
    path = job_file(tmp_path, 'command: [python, train.py, "{n}"]\narray: {grid: {n: [1, 2, 3]}}\n')
    found = would_happen(path, CLUSTER, 100)
    assert (found["refused"], found["notes"]) == ([], ["it is an array of 3 jobs"])


def test_without_a_cluster_the_rest_is_said(tmp_path: Path) -> None:
    path = job_file(tmp_path, "command: [python, train.py]\n")
    found = would_happen(path, None, 100)
    assert (found["door"], found["cluster"], found["sizes"], found["refused"]) == ("plain", False, {}, [])
    assert list(lines(found, "no cluster is running")) == [
        f"{path}: would be submitted",
        "  door: plain; its program runs unchanged at one size",
        "  GPUs: not known; no cluster is running",
    ]


def test_what_would_be_refused_is_said_all_at_once_and_anyway_overrules_what_it_can(tmp_path: Path) -> None:
    path = job_file(tmp_path, "script: train.py\nresources: {min_gpus: 9}\n", script="print()\n")
    found = would_happen(path, CLUSTER, 100)
    assert found["refused"] == [
        "script: train.py never imports coadapt; give its model, optimizer and loader to coadapt.prepare, "
        "or say elastic: false to run it as it is",
        "resources.min_gpus: 9 is more than the cluster outside its pools has of any one type (a100 4, t4 4)",
    ]
    anyway = would_happen(path, CLUSTER, 100, anyway=True)
    assert (anyway["refused"], anyway["notes"]) == ([], found["refused"])
    assert next(lines(found, "")) == f"{path}: would be refused"


def test_a_file_that_cannot_be_read_as_a_job_is_refused_with_every_problem(tmp_path: Path) -> None:
    found = would_happen(job_file(tmp_path, "scrpt: train.py\nresources: {min_gpus: 0}\n"), CLUSTER, 100)
    assert found["door"] is None
    assert "resources.min_gpus: 0 is not a number of at least 1" in found["refused"]
    assert "scrpt: unknown field; did you mean script?" in found["refused"]


def test_a_folder_that_is_too_large_would_be_refused(tmp_path: Path) -> None:
    path = job_file(tmp_path, "script: train.py\n")
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(5 << 20)
    (refused,) = would_happen(path, None, 1)["refused"]
    assert refused.startswith("working_dir: ")


def test_a_spec_is_looked_at_as_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    found = would_happen(JobSpec(name="demo", script="train.py", working_dir=str(tmp_path)), CLUSTER, 100)
    assert (found["job"], found["refused"], found["sizes"]["a100"]) == ("demo", [], [1, 2, 3, 4])


@pytest.mark.parametrize("text", ["script: train.py\n", "command: [make]\nsizes: [1, 2]\n", "scrpt: train.py\n"])
@pytest.mark.parametrize("cluster", [CLUSTER, None], ids=["cluster", "no cluster"])
def test_the_answer_is_that_of_the_published_schema(tmp_path: Path, text: str, cluster: Cluster | None) -> None:
    schema = answers_schema.schema()
    answers = {"submit --check": [would_happen(job_file(tmp_path, text), cluster, 100)]}
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(answers)))
    fields = set(schema["$defs"]["SubmitView"]["properties"])
    assert set(answers["submit --check"][0]) == fields


SECRETS: list[Any] = [
    {"name": "HF_TOKEN", "created_s": 0.0, "changed_s": 0.0, "problem": ""},
    {"name": "LOST", "created_s": 0.0, "changed_s": 0.0, "problem": "LOST cannot be opened"},
]


@pytest.mark.parametrize("anyway", [False, True])
def test_a_secret_that_is_named_and_not_there_would_be_refused(tmp_path: Path, anyway: bool) -> None:
    path = job_file(tmp_path, "command: [make]\nsecrets: {A: HF_TOKEN, B: LOST, C: NO_TOKEN, D: NO_TOKEN}\n")
    found = would_happen(path, CLUSTER, 100, anyway=anyway, secrets=lambda: SECRETS)
    assert found["refused"] == [
        "secrets: LOST cannot be opened",
        "secrets: you have no secret NO_TOKEN; `coadapt secret set NO_TOKEN` makes one",
    ]
    assert would_happen(path, None, 100)["refused"] == [], "without a service nobody knows"


def test_secrets_are_asked_for_once_and_only_where_a_job_names_some(tmp_path: Path) -> None:
    asked = list[int]()

    def secrets() -> list[Any]:
        asked.append(1)
        return SECRETS

    plain = job_file(tmp_path, "command: [make]\n")
    views([plain], CLUSTER, None, False, secrets)
    assert asked == []
    named = [tmp_path / f"{n}.yaml" for n in range(2)]
    for path in named:
        path.write_text("name: demo\ncommand: [make]\nsecrets: [HF_TOKEN]\n")
    assert [view["refused"] for view in views(named, CLUSTER, None, False, secrets)] == [[], []]
    assert asked == [1]


def test_who_may_read_no_secrets_is_told_the_rest(tmp_path: Path) -> None:
    def secrets() -> list[Any]:
        raise AccessError("vic has the role viewer, and this needs user")

    path = job_file(tmp_path, "command: [make]\nsecrets: [HF_TOKEN]\n")
    assert would_happen(path, CLUSTER, 100, secrets=secrets)["refused"] == []


def test_a_check_over_http_knows_which_secrets_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = Api(tmp_path / "service")
    server = Server(api.app, ApiSettings(), 0)
    client = Client(HttpApi(f"http://127.0.0.1:{server.port}", api.tokens["ann"]))
    path = job_file(tmp_path, "command: [make]\nresources: {gpus: 1}\nsecrets: [HF_TOKEN]\n")
    missing = "secrets: you have no secret HF_TOKEN; `coadapt secret set HF_TOKEN` makes one"
    monkeypatch.setattr(main, "_connect", lambda: client)
    try:
        assert client.check(path)["refused"] == [missing]
        assert main.run(["submit", "--check", str(path)]) == Exit.USAGE
        assert missing in capsys.readouterr().out
        client.set_secret("HF_TOKEN", "x")
        assert client.check(path)["refused"] == []
        job_id = client.submit(path)
        client.remove_secret("HF_TOKEN")
        assert missing in client.check_fork(job_id)["refused"]
        assert missing in client.check_fork(job_id, job=path)["refused"]
    finally:
        client.close()
        server.stop()
        api.world.store.close()
