"""Users keep webhooks of their own, operators those of the cluster, and what leads nowhere good is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.api_settings import ApiSettings
from coadapt.core.topics import OF_JOBS
from coadapt.core.webhook_settings import WebhookSettings
from coadapt.scheduler.store.metrics import Point
from PIL import Image

from tests.support.api import JOB, SPEC, Api

GOOD = "https://hooks.example.com/x"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def add(api: Api, user: str = "ann", **told: Any) -> tuple[int, dict[str, Any]]:
    answer = api.ask("POST", "/v1/webhooks", user, json={"name": "mine", "url": GOOD, **told})
    return answer.status_code, answer.json()


def submitted(api: Api, user: str = "ann", **fields: Any) -> tuple[int, str]:
    body = {**JOB, "spec": {**SPEC, **fields}}
    answer = api.ask("POST", "/v1/jobs", user, json=body, headers={"Idempotency-Key": json.dumps(fields)})
    return answer.status_code, str(answer.json().get("detail", ""))


def test_a_webhook_is_added_listed_tried_and_removed_and_all_of_it_is_audited(api: Api) -> None:
    status, made = add(api, url="https://hooks.example.com/secret-place")
    assert (status, made["secret"][:6]) == (201, "whsec_")
    (row,) = api.ask("GET", "/v1/webhooks", "ann").json()
    assert (row["name"], row["url"], row["events"]) == (
        "mine",
        "https://hooks.example.com/…",
        ["job.failed", "job.succeeded"],
    )
    assert api.ask("GET", "/v1/webhooks", "bob").json() == [], "it is nobody else's"
    assert api.ask("POST", "/v1/webhooks/mine/test", "ann").status_code == 202
    assert api.ask("DELETE", "/v1/webhooks/mine", "bob").status_code == 404
    assert api.ask("DELETE", "/v1/webhooks/mine", "ann").json() == {"waiting": 0}
    assert api.ask("POST", "/v1/webhooks/mine/test", "ann").json()["detail"] == "no webhook mine"
    rows = api.ask("GET", "/v1/audit", params={"limit": 50}).json()["items"]
    told = [(row["verb"], row["target"]) for row in rows if row["verb"].startswith("webhook.")]
    assert {verb for verb, _ in told} == {"webhook.add", "webhook.test", "webhook.remove"}
    assert "secret-place" not in json.dumps(rows)
    assert made["secret"] not in json.dumps(rows)


def test_webhooks_of_the_cluster_are_for_operators(api: Api) -> None:
    status, answer = add(api, "ann", cluster=True)
    assert (status, answer["detail"]) == (403, "ann has the role user; webhooks of the cluster are for operators")
    assert add(api, "ops", cluster=True, events=["node.changed", "job.failed"])[0] == 201
    assert api.ask("GET", "/v1/webhooks", "ops").json() == []
    (row,) = api.ask("GET", "/v1/webhooks", "ops", params={"cluster": True}).json()
    assert row["events"] == ["job.failed", "node.changed"]
    assert api.ask("DELETE", "/v1/webhooks/mine", "ops", params={"cluster": True}).status_code == 200


PUBLIC = "public addresses are accepted, and what an operator names in `webhooks.allowed`"
BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"url": "http://169.254.169.254/latest"},
        "169.254.169.254 is a cloud's metadata service, to which nothing is sent",
    ),
    ({"url": "https://127.0.0.1:8420/"}, f"127.0.0.1 is this machine itself; {PUBLIC}"),
    ({"url": "https://[::1]/"}, f"::1 is this machine itself; {PUBLIC}"),
    ({"url": "https://10.0.0.1/"}, f"10.0.0.1 is no public address; {PUBLIC}"),
    (
        {"url": "http://hooks.example.com/x"},
        "http://hooks.example.com/… is not encrypted; a URL of https is accepted",
    ),
    (
        {"url": "https://ann:word@hooks.example.com/x"},
        "https://hooks.example.com/… has a user or a password in it; a URL without them is accepted",
    ),
    ({"url": "nowhere"}, "nowhere is no URL that apprise knows; accepted are https:// and, for example, "),
    (
        {"url": "syslog://localhost"},
        "syslog://… is no URL that apprise knows; accepted are https:// and, for example, ",
    ),
    ({"events": ["job.exploded"]}, f"events: job.exploded is not one of {', '.join(OF_JOBS)}"),
    ({"events": ["node.changed"]}, f"events: node.changed is not one of {', '.join(OF_JOBS)}"),
    ({"name": "../x"}, "name: ../x is not a name of 1 to 63 letters, digits, "),
    ({"name": ""}, 'name: "" is not a name of 1 to 63 letters, digits, '),
    ({"secret": "mine"}, "secret: unknown field"),
]


@pytest.mark.parametrize(("told", "sentence"), BAD, ids=[str(told) for told, _ in BAD])
def test_what_is_no_webhook_is_refused_in_one_sentence(api: Api, told: dict[str, Any], sentence: str) -> None:
    status, answer = add(api, **told)
    assert status == 422
    assert answer["detail"].removeprefix("url: ").startswith(sentence)
    assert "\n" not in answer["detail"]
    assert api.ask("GET", "/v1/webhooks", "ann").json() == []


def test_a_name_is_given_once_and_webhooks_have_a_bound(api: Api) -> None:
    assert add(api)[0] == 201
    told = "name: there is a webhook mine already; remove it first, or choose another"
    assert add(api)[1]["detail"] == told
    for at in range(49):
        assert add(api, name=f"w{at}")[0] == 201
    assert add(api, name="one-more")[1]["detail"].startswith("name: there are 50 webhooks, and no more are kept")
    assert add(api, "bob")[0] == 201, "of each user"


def test_an_operator_opens_networks_while_the_scheduler_runs(api: Api) -> None:
    assert add(api, url="http://10.1.2.3/x")[0] == 422
    changed = api.ask("PATCH", "/v1/settings", json={"webhooks.allowed": ["10.1.0.0/16"]})
    assert changed.json()["changed"] == ["webhooks"]
    assert add(api, url="http://10.1.2.3/x")[0] == 201
    bad = api.ask("PATCH", "/v1/settings", json={"webhooks.allowed": ["10.1.2.3/16"]})
    assert bad.json()["detail"] == "webhooks.allowed: 10.1.2.3/16 is not a network, such as 10.1.0.0/16"


def test_a_job_names_webhooks_of_its_user_and_urls_that_may_be_asked(api: Api) -> None:
    assert add(api)[0] == 201
    assert submitted(api, notify={"to": ["mine", "https://hooks.example.com/y"]}) == (201, "")
    made = "`coadapt webhook add mine URL` makes one"
    assert submitted(api, "bob", notify={"to": ["mine"]}) == (422, f"notify.to: bob has no webhook mine; {made}")
    status, told = submitted(api, notify={"to": ["http://169.254.169.254/"]})
    assert (status, told) == (
        422,
        "notify.to: 169.254.169.254 is a cloud's metadata service, to which nothing is sent",
    )
    status, told = submitted(api, notify={"to": ["mine"], "events": ["exploded"]})
    assert (status, told[:30]) == (422, "spec.notify.events.0: exploded")
    assert submitted(api, notify={"to": []})[0] == 422
    assert submitted(api, notify={"to": ["mine", "mine"]})[1].endswith(
        "mine is given twice; each is accepted once"
    )
    status, told = submitted(api, trackers=["tensorbored"])
    assert (status, told) == (422, "spec.trackers.0: tensorbored is not one of mlflow, wandb")


def test_the_picture_of_a_curve_is_there_for_who_has_its_signed_address(api: Api) -> None:
    job_id, parts = api.job("ann"), api.service.parts
    public = parts.settings.api.model_copy(update={"public_url": "https://coadapt.example.com/"})
    assert parts.pictures.address(job_id) == "", "nobody could open it"
    parts.settings.take(parts.settings.model_copy(update={"api": public}))
    address = parts.pictures.address(job_id)
    assert address.startswith(f"https://coadapt.example.com/pictures/{job_id}.png?until=")
    path = address.removeprefix("https://coadapt.example.com")

    def picture() -> Image.Image:
        answer = api.ask("GET", path, None)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
        return Image.open(io.BytesIO(answer.content)).convert("RGB")

    empty = picture()
    for at in range(50):
        with parts.store.together():
            parts.history.add(job_id, {"loss": Point(float(at), 5.0 / (at + 1)), "other": Point(float(at), 1.0)})
    full = picture()
    assert full.size == empty.size == (640, 320)
    pixels = (full.getpixel((x, y)) for x in range(71, 620) for y in range(50, 280))
    assert sum(blue - red > 60 for red, _, blue in pixels) > 300, "the curve"
    assert api.ask("GET", path.replace(job_id, "other-1"), None).status_code == 404
    for wrong in (path[:-1] + ("A" if path[-1] != "A" else "B"), path.replace("until=1", "until=2"), path + "é"):
        told = api.ask("GET", wrong, None)
        assert (told.status_code, told.json()["detail"]) == (
            404,
            "there is no such picture, or its address has expired",
        )
    api.world.clock.forward(8 * 86_400)
    assert api.ask("GET", path, None).status_code == 404, "it expires"


def test_settings_of_the_api_take_a_public_url_and_no_other_text() -> None:
    assert ApiSettings(public_url="https://coadapt.example.com").public_url
    with pytest.raises(ValueError, match="public_url"):
        ApiSettings(public_url="coadapt.example.com")
    with pytest.raises(ValueError, match="give_up_hours"):
        WebhookSettings(give_up_hours=0)
