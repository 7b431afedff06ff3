"""What `/openapi.json` says is what the routes do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from coadapt.api.access import RULES
from coadapt.api.description import BODIES, BYTES

from tests.support.api import Api

# These change something and read no body.
WITHOUT = {
    ("POST", "/v1/backups"),
    ("POST", "/v1/jobs/{job_id}/cancel"),
    ("POST", "/v1/jobs/{job_id}/pause"),
    *(("POST", f"/v1/jobs/{{job_id}}/{verb}") for verb in ("bump", "hold", "release")),
    ("POST", "/v1/jobs/{job_id}/requeue"),
    ("POST", "/v1/studies/{study}/cancel"),
    ("POST", "/v1/machines/{machine}/{verb}"),
    ("POST", "/v1/webhooks/{webhook}/test"),
    ("POST", "/v1/secrets/rekey"),
    ("POST", "/v1/nodes/{node}/uncordon"),
    ("POST", "/v1/page-keys"),
}
OF_PAGES = {("GET", "/static/{path:path}"), ("POST", "/sign-out")}  # which only a browser asks for


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def test_each_route_is_described_with_its_body_its_problems_and_who_may_ask(api: Api) -> None:
    document = api.ask("GET", "/openapi.json", None).json()
    told = {
        (method.upper(), path): operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert set(told) == {key for key, rule in RULES.items() if not rule.page and key not in OF_PAGES}
    for key, operation in told.items():
        assert ("requestBody" in operation) == (key in BODIES or key in BYTES), key
        assert ("security" in operation) == (RULES[key].role is not None), key
        assert "application/problem+json" in operation["responses"]["default"]["content"], key
        assert "422" not in operation["responses"], key
    bodies = {key for key in told if key[0] in ("POST", "PUT", "PATCH")}
    assert bodies == set(BODIES) | BYTES | WITHOUT


def test_a_described_body_names_its_fields_and_which_are_needed(api: Api) -> None:
    document = api.ask("GET", "/openapi.json", None).json()
    body = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["required"]) == {"spec", "package"}
    assert set(body["properties"]) == {"spec", "package", "script_key"}
    assert body["additionalProperties"] is False
