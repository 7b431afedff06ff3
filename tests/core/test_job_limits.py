"""What a job may not ask for is refused in one sentence, by the client and by the service alike."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from coadapt.client import jobfile
from coadapt.core.job import JobSpec
from coadapt.core.job_limits import (
    ENV_BYTES,
    MASK,
    MOST_WORDS,
    JobLimitError,
    is_secret,
    masked,
    refusals,
    sent_refusals,
)

KINDS: dict[str, dict[str, Any]] = {
    "native": {"script": "train.py"},
    "script": {"script": "train.py", "elastic": False},
    "command": {"command": ["torchrun", "train.py"]},
    "sizes": {"command": ["torchrun", "train.py"], "sizes": [1, 2]},
}
SHOWN = "would name GPUs, which coadapt does for each process; ask for GPUs under resources"
RANK = "set by coadapt for each worker and cannot be given"
LOADED = "would change what every program loads; LD_LIBRARY_PATH is accepted"
RAY = "is of Ray, which a job knows nothing of; names without RAY_ are accepted"
KNOWN = "s3, s3a, gs, gcs, az, abfs, abfss, adl, hdfs, webhdfs, sftp, ssh, smb, oss, oci, cos, hf"
NO_STORAGE = f"is of no storage that keeps checkpoints; accepted are a path and URLs of {KNOWN}"
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": f"0 {SHOWN}",
    "CUDA_DEVICE_ORDER": f"0 {SHOWN}",
    "HIP_VISIBLE_DEVICES": f"0 {SHOWN}",
    "ROCR_VISIBLE_DEVICES": f"0 {SHOWN}",
    "NVIDIA_VISIBLE_DEVICES": f"0 {SHOWN}",
    "GROUP_RANK": RANK,
    "ROLE_RANK": RANK,
    "TORCHELASTIC_RUN_ID": RANK,
    "RAY_ADDRESS": f"0 {RAY}",
    "RAY_AUTH_TOKEN": f"{MASK} {RAY}",
    "LD_PRELOAD": f"0 {LOADED}",
    "LD_AUDIT": f"0 {LOADED}",
}
FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "10 MB of env": (
        {"env": {"A": "x" * 10_000_000}},
        f"env: has 10000003 bytes; at most {ENV_BYTES} are",
    ),
    "1,001 variables": ({"env": {f"A{i}": "" for i in range(1001)}}, "env: has 1001 variables; at most 1000 are"),
    "1,000,000 args": (
        {"args": ["x"] * 1_000_000},
        f"args: has 1000000 entries; at most {MOST_WORDS} are accepted",
    ),
    "one long argument": ({"args": ["x" * 300_000]}, "args: has 300001 bytes; at most 262144 are accepted"),
    "10,001 requirements": ({"pip": ["x"] * 10_001}, "pip: has 10001 entries; at most 10000 are accepted"),
    "a long path": ({"script": "a/" * 600 + "t.py"}, "script: has 1204 characters; at most 1024 are accepted"),
    "a chained URL": (
        {"training": {"checkpoint": {"url": "simplecache::http://169.254.169.254/latest"}}},
        f"training.checkpoint.url: simplecache::http://169.254.169.254/latest {NO_STORAGE}",
    ),
    "a URL that only reads": (
        {"training": {"checkpoint": {"url": "http://169.254.169.254/latest"}}},
        f"training.checkpoint.url: http://169.254.169.254/latest {NO_STORAGE}",
    ),
    "a chain behind a path": (
        {"training": {"checkpoint": {"url": "/data/x::file://y"}}},
        f"training.checkpoint.url: /data/x::file://y {NO_STORAGE}",
    ),
}


def spec(**fields: Any) -> JobSpec:
    return JobSpec.model_validate({"name": "demo", "script": "train.py"} | fields)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VARIABLES)
def test_variables_that_are_not_a_jobs_are_refused_for_every_kind_of_program(name: str, kind: str) -> None:
    fields = {"name": "demo", "env": {name: "0"}} | KINDS[kind]
    with pytest.raises(jobfile.JobFileError) as found:
        jobfile.from_mapping(fields)
    assert found.value.problems == (f"env.{name}: {VARIABLES[name]}",)


@pytest.mark.parametrize("what", FIELDS)
def test_what_no_job_needs_is_refused_in_one_sentence(what: str) -> None:
    fields, sentence = FIELDS[what]
    (found,) = refusals(spec(**fields))
    assert found.startswith(sentence)
    assert len(found) < 300
    assert "\n" not in found


def test_an_honest_job_is_accepted() -> None:
    fine = spec(
        env={"LD_LIBRARY_PATH": "/opt/lib", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "4", "RAYS": "1"},
        args=["--lr", "0.1"],
        training={"checkpoint": {"url": "s3://bucket/folder"}},
    )
    assert refusals(fine) == []
    assert sent_refusals(fine) == []


@pytest.mark.parametrize("script", ["/etc/passwd", "../../x.py", "a/../../x.py", "/jobs/train.py"])
def test_the_service_takes_no_script_outside_the_folder_that_was_sent(script: str) -> None:
    (found,) = sent_refusals(spec(script=script))
    assert found == f"script: {script} is outside the working folder; a path inside it is accepted"


def test_the_service_takes_no_script_that_is_none() -> None:
    assert sent_refusals(spec(script="data.csv")) == ["script: data.csv is not a Python file (.py)"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "WANDB_API_KEY",
            "HF_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "APIKEY",
            "accessToken",
            "GH_TOKEN_2",
        ),
        *("MY_SECRETS", "SSH_PASSPHRASE", "GOOGLE_APPLICATION_CREDENTIALS", "BASIC_AUTH", "DB_PWD"),
    ],
)
def test_values_of_names_that_look_secret_are_not_shown(name: str) -> None:
    assert masked({name: "value"}) == {name: MASK}


@pytest.mark.parametrize(
    "name", ["NUM_TOKENS", "TOKENIZERS_PARALLELISM", "PWD", "AUTHOR", "KEYBOARD", "LR", "WANDB_PROJECT"]
)
def test_other_values_are_shown(name: str) -> None:
    assert not is_secret(name)
    assert masked({name: "value"}) == {name: "value"}


def test_a_password_inside_an_address_is_not_shown_either() -> None:
    told = masked({"DATABASE": "postgresql://ann:hunter2@db:5432/x", "EMPTY_KEY": ""})
    assert told == {"DATABASE": f"postgresql://ann:{MASK}@db:5432/x", "EMPTY_KEY": ""}


def test_the_error_travels_between_processes() -> None:
    found = pickle.loads(pickle.dumps(JobLimitError(["a: b", "c: d"])))
    assert (found.problems, str(found)) == (("a: b", "c: d"), "a: b\nc: d")
