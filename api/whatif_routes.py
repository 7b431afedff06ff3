"""What would be with another job, other nodes or another policy. Nothing is changed by asking."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ..core import teams_file
from ..core.errors import TeamsError
from ..core.schemas import DeadlineView, WhatIfView
from ..dashboard.colours import colours_of
from . import bodies
from .bodies import WITHOUT_NUL
from .context import answer, ask, may_read, reader_of, who
from .job_routes import ScriptKey, spec_text
from .pages import shown
from .problems import Problem

router = APIRouter()
MOST_LISTED = 200  # jobs, the newest
MOST_WAIT_S, LOOK_S = 120.0, 0.1
Text = Annotated[str, Field(max_length=500, pattern=WITHOUT_NUL)]


def _values(file: object) -> object:
    """Return the values of a file of teams, which may be given as its text."""
    if not isinstance(file, str):
        return file
    try:
        return teams_file.values_of(file.encode("utf-8", "replace"))
    except TeamsError as error:
        raise ValueError(str(error)) from None


TeamsFile = Annotated[dict[str, Any], BeforeValidator(_values, json_schema_input_type=dict[str, Any] | str)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskedJob(_Body):
    """A job that would be submitted. `script_key`: by which earlier runs of the same files are found."""

    spec: dict[str, Any]
    script_key: ScriptKey = ""


class WhatIfBody(_Body):
    """What would be otherwise. Nothing given: nothing.

    submit: jobs that would be submitted now.
    like: ids of jobs that would be submitted once more.
    nodes: that come and go, as "+4x a100:8, -1x t4:4".
    without: nodes that go.
    policy: that plans instead, with its options.
    team: by team, what its file would say otherwise, as {"vision": {"cap.a100": 32}}.
    teams: a whole file of teams that would be applied instead: its values, or its text.
    """

    submit: Annotated[list[AskedJob], Field(max_length=50)] = []
    like: Annotated[list[Text], Field(max_length=50)] = []
    nodes: Text = ""
    without: Annotated[list[Text], Field(max_length=200)] = []
    policy: Text | None = None
    policy_options: dict[str, Any] = {}
    team: dict[str, dict[str, Any]] = {}
    teams: TeamsFile | None = None


class DeadlineBody(_Body):
    """Whose deadline is asked about: that of a job, by its id, or of one that would be submitted."""

    job: Text | None = None
    submit: AskedJob | None = None

    @model_validator(mode="after")
    def _one(self) -> DeadlineBody:
        if (self.job is None) == (self.submit is None):
            raise ValueError("job: one of job and submit is accepted, and one of them is needed")
        return self


@router.post("/v1/whatif", responses={200: {"model": WhatIfView}})
async def whatif(request: Request) -> Response:
    """Say when every job starts and ends before and after a change."""
    body = await bodies.read(request, WhatIfBody)
    for job_id in body.like:
        if not await may_read(request, job_id):
            raise Problem(404, f"no job {job_id}", hidden=True)
    wanted = body.model_dump()
    wanted["submit"] = [
        {"spec": spec_text(one.spec, f"submit.{at}.spec"), "script_key": one.script_key}
        for at, one in enumerate(body.submit)
    ]
    return answer(await _worked_out(request, "whatif", wanted))


@router.post("/v1/deadline", responses={200: {"model": DeadlineView}})
async def deadline(request: Request) -> Response:
    """Say whether a deadline will hold, and what would have to give if not. Nothing is submitted."""
    body = await bodies.read(request, DeadlineBody)
    if body.job is not None and not await may_read(request, body.job):
        raise Problem(404, f"no job {body.job}", hidden=True)
    wanted: dict[str, Any] = {"job": body.job}
    if body.submit is not None:
        text = spec_text(body.submit.spec, "submit.spec")
        wanted = {"submit": {"spec": text, "script_key": body.submit.script_key}}
    return answer(await _worked_out(request, "deadline", wanted))


async def _worked_out(request: Request, question: str, wanted: dict[str, Any]) -> Any:
    """Return the answer to a question. Raises: Problem where it takes too long."""
    number = await ask(request, question, wanted, who(request).user, reader_of(request))
    until_s = time.monotonic() + MOST_WAIT_S
    while (found := await ask(request, "whatif_answer", number)) is None:
        if time.monotonic() > until_s:
            raise Problem(503, f"the answer is not there after {MOST_WAIT_S:.0f} s; ask again")
        await asyncio.sleep(LOOK_S)  # the scheduler tells nobody when it is there
    return found


@router.get("/what-if", include_in_schema=False)
async def page(request: Request) -> Response:
    """Show the page that asks, and draws the answer."""
    view = await ask(request, "cluster", reader_of(request))
    rows, _ = await ask(request, "page", None, MOST_LISTED, [], None, None, [], reader_of(request))
    return await shown(
        request,
        "whatif",
        nodes=sorted({node["machine"] for node in view["nodes"]}),
        policy=view["policy"],
        jobs=[{"id": row["id"], "name": row["name"]} for row in rows],
        colours=colours_of(row["gpu_type"] for row in (*view["nodes"], *view["asleep"])),
    )
