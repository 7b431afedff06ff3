"""What `/openapi.json` says beyond what the routes themselves tell: bodies, problems, and who may ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from . import (
    care_routes,
    identity_routes,
    job_routes,
    node_routes,
    output_routes,
    standing_routes,
    study_routes,
    team_routes,
    webhook_routes,
    whatif_routes,
)
from .access import RULES

# Bodies are read in bounded memory (`bodies.py`), which the framework does not see.
BODIES: Mapping[tuple[str, str], type[BaseModel]] = {
    ("PATCH", "/v1/settings"): care_routes.Wanted,
    ("POST", "/v1/prune"): care_routes.Pruning,
    ("POST", "/v1/jobs"): job_routes.NewJob,
    ("POST", "/v1/jobs/{job_id}/resume"): job_routes.ChangedJob,
    ("POST", "/v1/jobs/{job_id}/fork"): job_routes.Fork,
    ("POST", "/v1/jobs/{job_id}/outputs/contents"): output_routes.Names,
    ("POST", "/v1/jobs/{job_id}/outputs/part"): output_routes.Part,
    ("POST", "/v1/jobs/{job_id}/priority"): standing_routes.NewPriority,
    ("POST", "/v1/studies"): study_routes.NewStudy,
    ("POST", "/v1/jobs/{job_id}/weight"): standing_routes.NewWeight,
    ("POST", "/v1/jobs/{job_id}/extend"): standing_routes.MoreTime,
    ("POST", "/v1/jobs/{job_id}/keep"): standing_routes.KeptTrials,
    ("POST", "/v1/nodes/{node}/cordon"): node_routes.Cordon,
    ("POST", "/v1/nodes/{node}/drain"): node_routes.Drain,
    ("POST", "/v1/windows"): node_routes.NewWindow,
    ("PUT", "/v1/teams"): team_routes.NewTeams,
    ("PUT", "/v1/users/{user}"): identity_routes.UserBody,
    ("POST", "/v1/tokens"): identity_routes.TokenBody,
    ("POST", "/v1/webhooks"): webhook_routes.NewWebhook,
    ("POST", "/v1/whatif"): whatif_routes.WhatIfBody,
    ("POST", "/v1/deadline"): whatif_routes.DeadlineBody,
}
BYTES = frozenset({("PUT", "/v1/packages/{name}"), ("PUT", "/v1/secrets/{secret}")})  # whose bodies are no JSON
PROBLEM = {
    "type": "object",
    "description": "A problem (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence for a person."},
        "field": {"type": "string"},
        "value": {"description": "What was not accepted."},
        "accepted": {"type": "string"},
    },
}
_ANSWER = {"description": "A problem", "content": {"application/problem+json": {"schema": PROBLEM}}}
_COMPONENTS = "#/components/schemas/{model}"


def describe(app: FastAPI) -> None:
    """Have an app describe its bodies, problems and tokens as they are."""
    told = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(told())
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]  # as FastAPI's own guide has it


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schemas = components.setdefault("schemas", {})
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            key = method.upper(), path
            answers = operation["responses"]
            answers.pop("422", None)  # the framework's own form, which is not served
            answers["default"] = _ANSWER
            if RULES[key].role is not None:
                operation["security"] = [{"token": []}]
            if key in BODIES:
                operation["requestBody"] = {"required": True, "content": _json(BODIES[key], schemas)}
            elif key in BYTES:
                binary = {"schema": {"type": "string", "format": "binary"}}
                operation["requestBody"] = {"required": True, "content": {"application/octet-stream": binary}}
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document


def _json(body: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = body.model_json_schema(ref_template=_COMPONENTS)
    schemas |= schema.pop("$defs", {})
    return {"application/json": {"schema": schema}}
