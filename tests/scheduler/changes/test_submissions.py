"""The service checks a job by itself, whatever its client has checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.errors import PackageError
from coadapt.core.job import JobSpec
from coadapt.core.job_limits import MOST_BYTES, JobLimitError
from coadapt.scheduler.changes.submissions import accepted
from coadapt.scheduler.files.packages import PackageStore
from coadapt.scheduler.views.job_views import shown_spec
from pydantic import ValidationError

from tests.support.packages import kept

SENT = "abc123"


@pytest.fixture
def packages(tmp_path: Path) -> PackageStore:
    kept(tmp_path / "packages", SENT)
    return PackageStore(tmp_path / "packages")


def told(**fields: Any) -> str:
    return json.dumps({"name": "demo", "script": "train.py"} | fields)


def test_an_honest_job_is_accepted(packages: PackageStore) -> None:
    assert accepted(told(env={"A": "b"}), SENT, packages).env == {"A": "b"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"script": "/etc/passwd"}, "script: /etc/passwd is outside the working folder"),
        ({"script": "../../x.py"}, "script: ../../x.py is outside the working folder"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "env.CUDA_VISIBLE_DEVICES: 0 would name GPUs"),
        ({"env": {"A": "x" * 200_000}}, "env: has 200003 bytes"),
        ({"env": {"A": "x" * 10_000_000}}, f"job: has 10000056 characters of JSON; at most {MOST_BYTES}"),
        ({"args": ["x"] * 50_000}, "args: has 50000 entries"),
        (
            {"training": {"checkpoint": {"url": "simplecache::http://169.254.169.254/x"}}},
            "training.checkpoint.url: simplecache::http://169.254.169.254/x is of no storage",
        ),
    ],
)
def test_a_job_that_no_client_checked_is_refused(
    fields: dict[str, Any], sentence: str, packages: PackageStore
) -> None:
    with pytest.raises(JobLimitError) as found:
        accepted(told(**fields), SENT, packages)
    assert str(found.value).startswith(sentence)


@pytest.mark.parametrize("package", ["other", "../../srv/evil", "/etc/x"])
def test_a_job_whose_folder_was_not_sent_is_refused(package: str, packages: PackageStore) -> None:
    with pytest.raises(PackageError, match="submit the job again"):
        accepted(told(), package, packages)


def test_fields_of_a_wrong_form_are_refused_as_before(packages: PackageStore) -> None:
    with pytest.raises(ValidationError):
        accepted(told(surprise=1), SENT, packages)


def test_no_secret_of_a_job_is_shown() -> None:
    shown = shown_spec(JobSpec(name="demo", script="train.py", env={"WANDB_API_KEY": "0123", "LR": "1"}))
    assert "0123" not in json.dumps(shown)
    assert shown["env"]["LR"] == "1"
