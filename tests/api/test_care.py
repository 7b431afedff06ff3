"""Operators take care of the scheduler over HTTP; what does not fit is one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.scheduler.store import restoring
from coadapt.scheduler.store.metrics import Point

from tests.support.api import Api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def test_settings_change_and_the_log_says_who_asked(api: Api) -> None:
    answer = api.ask("PATCH", "/v1/settings", json={"debounce_s": 0.1, "retention.event_days": 9})
    assert answer.json() == {"changed": ["debounce_s", "retention"]}
    assert api.ask("GET", "/v1/settings").json()["retention"]["event_days"] == 9
    rows = {row["name"]: row for row in api.ask("GET", "/v1/settings/rows").json()}
    assert (rows["debounce_s"]["value"], rows["debounce_s"]["changed"]) == (0.1, True)
    assert [event.who for event in api.world.store.cluster_events()] == ["ops"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"colour": "red"}, "colour: unknown setting; known: policy"),
        ({"round_interval_s": 0}, "round_interval_s: 0 is not a number above 0"),
        ({"state_dir": "/x"}, "state_dir: cannot change while the scheduler runs: it names a place"),
        ({"policy": "siaa"}, "policy"),
        ([1], "the body is not a JSON object"),
    ],
)
def test_settings_that_do_not_fit_are_told(api: Api, body: Any, detail: str) -> None:
    answer = api.ask("PATCH", "/v1/settings", json=body)
    assert (answer.status_code, answer.json()["detail"].startswith(detail)) == (422, True)
    assert api.world.store.cluster_events() == []


def test_a_backup_is_written_and_fetched(api: Api, tmp_path: Path) -> None:
    api.job("ann")
    made = api.ask("POST", "/v1/backups").json()
    name = Path(made["path"]).name
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(api.ask("GET", f"/v1/backups/{name}").content)
    assert (copy.stat().st_size, restoring.checked(copy), made["jobs"]) == (made["bytes"], 1, 1)
    assert api.ask("GET", f"/v1/backups/{name}", params={"offset": made["bytes"]}).content == b""
    for wrong in ("none.sqlite", "..%2Fjobs.sqlite"):
        assert api.ask("GET", f"/v1/backups/{wrong}").status_code in (404, 409)
    assert api.ask("GET", f"/v1/backups/{name}", params={"offset": -1}).status_code == 422


def test_what_retention_removes_and_how_metrics_went_is_told(api: Api) -> None:
    job = api.job("ann")
    api.service.parts.history.add(job, {"loss": Point(1.0, 0.5), "nan": Point(1.0, float("nan"))})
    found = api.ask("GET", f"/v1/jobs/{job}/metrics", "ann").json()
    assert [point["value"] for point in found["metrics"]["loss"]] == [0.5]
    assert found["metrics"]["nan"][0]["value"] is None
    assert api.ask("POST", "/v1/prune", json={"dry_run": True}).json() == []
    assert api.ask("POST", "/v1/prune", json={"wet_run": True}).status_code == 422
