"""The JSON schema of what reading verbs answer and `--json` prints, made from `core/schemas.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ..core.schemas import (
    AuditView,
    BackupView,
    ClusterView,
    ExplainView,
    JobDetails,
    JobRow,
    MachineRow,
    MetricsView,
    OrderView,
    PrunedRow,
    RoundRow,
    SecretRow,
    SettingRow,
    SubmitView,
    TeamsChange,
    TeamsView,
    TimelineRow,
    UsageSum,
    WebhookRow,
    WhatIfView,
    WindowRow,
)

SCHEMA_PATH = Path(__file__).with_name("answers_schema.json")
ANSWERS: dict[str, Any] = {
    "list": list[JobRow],
    "describe": JobDetails,
    "cluster": ClusterView,
    "node list": list[MachineRow],
    "node window list": list[WindowRow],
    "node drain": list[OrderView],  # of `Client.drain`, `cordon` and `uncordon`: one of them
    "explain": ExplainView,
    "timeline": list[TimelineRow],
    "metrics": MetricsView,
    "prune": list[PrunedRow],
    "teams": TeamsView,
    "usage": list[UsageSum],
    "teams apply": TeamsChange,  # also of `Client.check_teams`
    "backup": BackupView,
    "settings": list[SettingRow],
    "audit": list[AuditView],
    "rounds": list[RoundRow],
    "whatif": WhatIfView,
    "secret list": list[SecretRow],
    "webhook list": list[WebhookRow],
    "submit --check": list[SubmitView],  # of `Client.check`: one of them
    "fork --check": SubmitView,
}


def schema() -> dict[str, Any]:
    """Return one JSON schema. Its properties are the answers by verb."""
    answers, rest = TypeAdapter.json_schemas(
        [(verb, "serialization", TypeAdapter(answer)) for verb, answer in ANSWERS.items()],
        title="Coadapt answers",
        description="What `coadapt VERB --json` and the client's verbs answer, by verb.",
    )
    properties = {verb: answers[verb, "serialization"] for verb in ANSWERS}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": properties, **rest}


def schema_text() -> str:
    """Return the schema as it is published."""
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"
