"""An operator watches the service for months: each metric is on its page, and series are few and name no job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from coadapt.api.app import make_app
from coadapt.core.api_settings import ApiSettings
from coadapt.core.errors import StateError
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import Api, DirectScheduler

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(coadapt_\w+)` \| (\w+) \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
UNITS = {"seconds": "s", "bytes": "bytes"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def values(api: Api, **more: object) -> dict[str, float]:
    """Return the value of each series by its name and labels."""
    answer = api.ask("GET", "/metrics", None, **more)
    assert answer.status_code == 200
    return {
        sample.name + "".join(f",{label}" for label in sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_the_page_lists_every_metric_and_no_other(api: Api) -> None:
    rows = ROW.findall(PAGE.read_text())
    told = {name: (kind, unit.strip(), meaning.strip()) for name, kind, unit, _, meaning in rows}
    served = {}
    for family in api.app.state.context.metrics.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        unit = next((UNITS[word] for word in UNITS if name.removesuffix("_total").endswith(word)), "")
        served[name] = family.type, unit, family.documentation.removesuffix(".")
        if name.startswith("coadapt_api_process_"):  # the library's words
            served[name] = family.type, unit, told[name][2] if name in told else ""
    assert told == served


def test_labels_are_those_of_the_page(api: Api) -> None:
    api.job("ann")
    answer = api.ask("GET", "/metrics", None).text
    told = {name: set(re.findall(r"`(\w+)`", labels)) for name, _, _, labels, _ in ROW.findall(PAGE.read_text())}
    for family in text_string_to_metric_families(answer):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == told[name], name


def test_it_says_what_jobs_and_gpus_do(api: Api) -> None:
    world = api.world
    world.play("submit a unprofiled\nwish a t4-000:2\ngo\nruns a\nsubmit b unprofiled")
    world.clock.forward(100)
    found = values(api)
    assert (found["coadapt_jobs,running"], found["coadapt_jobs,waiting"], found["coadapt_jobs,paused"]) == (
        1,
        1,
        0,
    )
    assert (found["coadapt_gpus,held,t4"], found["coadapt_gpus,free,t4"]) == (2, 2)
    assert found["coadapt_gpu_training_seconds_total,t4"] == 200
    assert found["coadapt_gpu_held_seconds_total,t4"] == 206, "two GPUs were held for 3 s before"
    assert found["coadapt_queue_oldest_wait_seconds"] == 100
    assert found["coadapt_queue_wait_seconds_count"] == found["coadapt_round_duration_seconds_count"] == 1
    assert found["coadapt_jobs_submitted_total"] == 2
    assert found["coadapt_scheduler_up"] == 1
    world.play("cancel a")
    api.app.state.context.metrics._asked_s = None
    assert values(api)["coadapt_jobs_ended_total,cancelled"] == 1


def test_no_series_comes_with_a_job_or_a_path_that_somebody_types(api: Api) -> None:
    api.ask("GET", "/v1/jobs/none")
    before = len(values(api))
    for at in range(20):
        job_id = api.job("ann", f"secret-name-{at}")
        api.ask("GET", f"/v1/jobs/{job_id}", "ann")
        api.ask("GET", f"/v1/nowhere/{at}")
    api.app.state.context.metrics._asked_s = None
    text = api.ask("GET", "/metrics", None).text
    assert "secret-name" not in text
    assert "nowhere" not in text
    assert len(values(api)) - before <= 5 * 9, "as many as routes, methods and statuses have"


def test_a_scheduler_that_is_away_is_told(api: Api) -> None:
    class Away(DirectScheduler):
        async def call(self, method: str, *args: object) -> object:
            raise StateError("the scheduler does not answer now")

    api.app = make_app(Away(api.service))
    found = values(api)
    assert found["coadapt_scheduler_up"] == 0
    assert "coadapt_degraded" not in found
    assert found["coadapt_api_process_open_fds"] > 0


def test_who_reads_metrics(tmp_path: Path) -> None:
    api, secret = Api(tmp_path), tmp_path / "scrape"
    secret.write_text("scraper\n")

    def asked(settings: ApiSettings, token: str = "", **headers: str) -> int:
        api.app = make_app(DirectScheduler(api.service), settings)
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        return api.ask("GET", "/metrics", None, headers=headers).status_code

    laptop, viewer = ApiSettings(), api.tokens["vic"]
    proxied = ApiSettings(host="0.0.0.0", trusted_proxies=("10.0.0.1",))
    scraped = ApiSettings(metrics_token_file=str(secret))
    assert asked(laptop) == 200
    assert asked(laptop, **{"X-Forwarded-For": "10.1.1.1"}) == 401, "a proxy asks for somebody elsewhere"
    assert (asked(proxied), asked(proxied, viewer), asked(proxied, "scraper")) == (401, 200, 401)
    assert (asked(scraped), asked(scraped, viewer), asked(scraped, "scraper")) == (401, 200, 200)
    secret.write_text("")
    assert asked(scraped, "scraper") == 401, "an empty file lets nobody in"
    api.world.store.close()
