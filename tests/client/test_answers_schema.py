"""The schema of answers is published, and has every code that programs read with a line on what it means."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from coadapt.client import answers_schema
from coadapt.core.decisions import WaitReason
from coadapt.core.doors import Door
from coadapt.core.events import EventKind, shown_kind


def test_the_published_schema_is_the_one_the_code_holds() -> None:
    told = "run `coadapt schema --answers --write`"
    assert answers_schema.SCHEMA_PATH.read_text() == answers_schema.schema_text(), told
    jsonschema.Draft202012Validator.check_schema(json.loads(answers_schema.schema_text()))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (lambda schema: schema["JobEvent"]["properties"]["kind"], {shown_kind(kind) for kind in EventKind}),
        (lambda schema: schema["JobRow"]["properties"]["wait_reason"]["anyOf"][0], set(WaitReason)),
        (lambda schema: schema["ExplainView"]["properties"]["reason"]["anyOf"][0], set(WaitReason)),
        (lambda schema: schema["SubmitView"]["properties"]["door"]["anyOf"][0], set(Door)),
    ],
    ids=["kinds of events", "reasons to wait", "reasons of explain", "doors"],
)
def test_every_code_is_there_with_a_line(field: Any, words: set[str]) -> None:
    told = {one["const"]: one["description"] for one in field(answers_schema.schema()["$defs"])["oneOf"]}
    assert set(told) == words
    assert all(len(line.split()) > 2 for line in told.values())
