"""`coadapt metrics` shows how metrics went; `coadapt prune` says what goes."""

import json
from typing import Any

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.cli.metrics import curve
from coadapt.client import client as client_module
from coadapt.client.client import UnknownJobError
from coadapt.core.schemas import MetricPoint, PrunedRow


def points(*values: float | None) -> list[MetricPoint]:
    return [MetricPoint(at_s=float(at), value=value, epoch=1, samples=at) for at, value in enumerate(values)]


class Client:
    """A client of a job with two metrics, of whose service retention would remove something."""

    rows: tuple[PrunedRow, ...] = (PrunedRow(kind="events", count=12_000, bytes=3 << 20),)

    def jobs(self, *, name: str | None = None, most: int | None = None) -> list[dict[str, Any]]:
        return [{"id": "a-1", "name": "a"}] if name in (None, "a", "a-1") else []

    def metrics(self, job_id: str) -> dict[str, Any]:
        if job_id != "a-1":
            raise UnknownJobError(f"no job {job_id}")
        return {"id": job_id, "metrics": {"loss": points(4.0, 2.0, None, 1.0), "accuracy": points(None)}}

    def prune(self, *, dry_run: bool) -> tuple[PrunedRow, ...]:
        assert dry_run
        return self.rows


@pytest.fixture(autouse=True)
def _client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_connect", Client)
    monkeypatch.setattr(client_module, "connect", Client)


def test_metrics_are_shown_with_their_ends_and_a_curve(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["metrics", "a"]) == Exit.OK
    out = capsys.readouterr().out
    assert "loss           4      4     1      1     4  █▃ ▁" in out
    assert main.run(["metrics", "a-1", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["metrics"]["loss"][2]["value"] is None
    assert main.run(["metrics", "b"]) == Exit.NOT_FOUND


def test_a_curve_is_of_bounded_width() -> None:
    assert curve(points(1.0)) == "▁"
    assert curve(points(*(float(at) for at in range(1000))))[::39] == "▁█"
    assert curve([]) == ""


def test_what_retention_would_remove_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.run(["prune", "--dry-run"]) == Exit.OK
    out = capsys.readouterr().out
    assert out == "   12,000 events, about 3.0 MiB\n`coadapt prune` would remove about 3.0 MiB\n"
    monkeypatch.setattr(Client, "rows", ())
    assert main.run(["prune", "--dry-run"]) == Exit.OK
    assert capsys.readouterr().out == "nothing is too old or too much\n"
    assert main.run(["prune", "--dry-run", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == []
