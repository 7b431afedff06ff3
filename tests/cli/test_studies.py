"""`coadapt tune` follows a study and writes the best job; `studies`, `describe` and `cancel` show and end it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from coadapt.cli import main, studies
from coadapt.cli.exit_codes import Exit
from coadapt.client import jobfile
from coadapt.client.http_api import RequestError, UnknownJobError
from coadapt.core.job import JobSpec
from coadapt.tuning.live.driver import Driver
from coadapt.tuning.live.store import StudyStore

from tests.support.api import NAME, Api
from tests.support.played_verbs import PlayedCluster, Refused

STUDY = """
name: digits
job: job.yaml
space: {lr: {log: [0.001, 1.0]}}
metric: accuracy
mode: max
trials: 6
epochs: 9
seed: 3
"""
SCRIPT = "import coadapt\nhp = coadapt.hyperparameters(lr=0.1)\ncoadapt.prepare()\n"


class Client:
    """A client of an app in this process, whose studies are driven a little whenever somebody looks."""

    def __init__(self, api: Api, folder: Path) -> None:
        self._api, self._folder, self.cluster = api, folder, PlayedCluster()

    def begin_study(self, study: Mapping[str, Any], job: JobSpec, *, tell: Any, dry_run: bool) -> str | None:
        told = {"spec": job.model_dump(mode="json", exclude_unset=True), "package": NAME, "script_key": ""}
        body = {"study": dict(study), "job": told, "dry_run": dry_run}
        return self._ask("POST", "/v1/studies", json=body, headers={"Idempotency-Key": "k"})["id"]

    def study(self, study_id: str) -> dict[str, Any]:
        for id in self._api.begun:
            store = StudyStore(self._folder / id)
            if not Driver(store, self.cluster, (Refused,), lambda: self.cluster.now_s).tick():
                self.cluster.tick()
            store.close()
        return self._ask("GET", f"/v1/studies/{study_id}")

    def studies(self) -> Any:
        return self._ask("GET", "/v1/studies")

    def cancel_study(self, study_id: str) -> bool:
        return bool(self._ask("POST", f"/v1/studies/{study_id}/cancel")["changed"])

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        answer = self._api.ask(method, path, "ann", **more)
        if answer.status_code == 404:
            raise UnknownJobError(answer.json()["detail"])
        if answer.status_code >= 400:
            raise RequestError(answer.json()["detail"])
        return answer.json()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    api = Api(tmp_path / "api")
    client = Client(api, tmp_path / "api" / "studies")
    monkeypatch.setattr(main, "_connect", lambda: client)
    monkeypatch.setattr(studies, "LOOK_S", 0.0)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text("name: digits\nscript: train.py\nresources: {max_gpus: 4}\n")
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    yield path
    api.world.store.close()


def said(capsys: pytest.CaptureFixture[str], *words: str, status: Exit = Exit.OK) -> str:
    assert main.run([*words]) == status
    found = capsys.readouterr()
    return found.out + found.err


def test_a_study_is_followed_and_its_best_job_is_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "tune", str(file))
    assert told.startswith("digits:1 has begun; Ctrl-C leaves it running, `coadapt cancel digits:1` ends it\n")
    assert "searching: 0 of 6 trials over" in told
    assert "done: 6 of 6 trials over; best accuracy" in told
    best = file.with_name("digits.best.yaml")
    assert f"wrote {best}; `coadapt submit {best}` trains with these values" in told
    spec = jobfile.load(best)
    assert (spec.script, spec.resources.max_gpus, len(spec.trials)) == ("train.py", 4, 1)
    assert f"lr {spec.trials[0].values['lr']:.4g}" in told


def test_a_study_is_shown_in_a_line_and_whole_and_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no studies yet; `coadapt tune study.yaml` begins one" in said(capsys, "studies")
    assert said(capsys, "tune", str(file), "--detach") == "digits:1\n"
    assert "digits:1  searching" in said(capsys, "studies")
    assert "digits:1 (ann): searching" in said(capsys, "describe", "digits:1")
    assert json.loads(said(capsys, "describe", "digits:1", "--json"))["trials_asked"] == 6
    assert said(capsys, "cancel", "digits:1") == "digits:1: ends, with its jobs\n"
    assert said(capsys, "cancel", "digits:1") == "digits:1: it was over\n"
    assert "cancelled" in said(capsys, "studies")


def test_a_study_that_is_only_checked_begins_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "tune", str(file), "--check") == f"{file}: nothing is wrong with it\n"
    assert "no studies yet" in said(capsys, "studies")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"space": {"rate": {"log": [0.001, 1.0]}}}, "space.rate: the script never asks for it"),
        ({"trials": 0}, "trials: 0 is not"),
        ({"job": "gone.yaml"}, "cannot be read: there is no such file"),
        ({"wrong": 1}, "wrong: unknown field"),
    ],
)
def test_what_is_wrong_with_a_study_is_told_in_a_sentence(
    file: Path, changed: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(yaml.safe_dump({**yaml.safe_load(STUDY), **changed}))
    found = said(capsys, "tune", str(file), status=Exit.USAGE)
    assert told in found
    assert "Traceback" not in found


def test_a_study_that_nobody_knows_is_not_found(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no study digits:7" in said(capsys, "describe", "digits:7", status=Exit.NOT_FOUND)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], "-"), ([1.0], "▁"), ([0.0, 1.0], "▁█"), ([float(i) for i in range(24)], "▁▁▂▂▃▄▄▅▆▆▇█")],
)
def test_a_curve_is_drawn_in_a_line(values: list[float], drawn: str) -> None:
    assert studies.spark(values) == drawn
