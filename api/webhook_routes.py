"""Webhooks: who is told of events. Also the pictures to which messages link."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from ..core.identity import Role
from ..core.notify import MOST_URL, NAME
from ..core.schemas import WebhookRow
from ..core.topics import DEFAULT
from ..dashboard.curve_picture import picture
from . import bodies
from .bodies import WITHOUT_NUL
from .context import answer, ask, change, who
from .problems import Problem

router = APIRouter()
Name = Annotated[str, Path(pattern=NAME)]
Cluster = Annotated[bool, Query()]


class NewWebhook(BaseModel):
    """A new webhook. `cluster`: it is told of all jobs and of the cluster, which operators may ask for."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(pattern=NAME)]
    url: Annotated[str, Field(min_length=1, max_length=MOST_URL, pattern=WITHOUT_NUL)]
    events: Annotated[list[str], Field(max_length=20)] = [topic.value for topic in DEFAULT]
    cluster: bool = False


@router.get("/v1/webhooks", responses={200: {"model": list[WebhookRow]}})
async def webhooks(request: Request, cluster: Cluster = False) -> Response:
    """Return one's own webhooks, or those of the cluster."""
    return answer(await ask(request, "webhooks", _owner(request, cluster)))


@router.post("/v1/webhooks", status_code=201)
async def add(request: Request) -> Response:
    """Add a webhook. Its secret is shown this once."""
    body = await bodies.read(request, NewWebhook)
    owner = _owner(request, body.cluster)
    return answer(await change(request, "add_webhook", owner, body.name, body.url, body.events), 201)


@router.post("/v1/webhooks/{webhook}/test", status_code=202)
async def try_it(request: Request, webhook: Name, cluster: Cluster = False) -> Response:
    """Send a webhook an event that is only for it. How that went stands in the list, soon after."""
    owner, asker = _owner(request, cluster), who(request).user
    return answer(await change(request, "try_webhook", owner, webhook, asker), 202)


@router.delete("/v1/webhooks/{webhook}")
async def remove(request: Request, webhook: Name, cluster: Cluster = False) -> Response:
    """Remove a webhook, and what waits for it."""
    return answer(await change(request, "remove_webhook", _owner(request, cluster), webhook))


@router.get("/pictures/{job_id}.png")
async def curve(
    request: Request,
    job_id: str,
    until: Annotated[int, Query(ge=0, le=10**12)],
    signature: Annotated[str, Query(max_length=100)],
) -> Response:
    """Return the picture of a job's curve to whoever has its signed address, until that expires."""
    found: dict[str, Any] = await ask(request, "curve", job_id, until, signature)
    content = picture(job_id, found["metric"], found["points"])
    return Response(content, media_type="image/png", headers={"Cache-Control": "private, max-age=60"})


def _owner(request: Request, cluster: bool) -> str:
    """Return whose webhooks are meant; "": those of the cluster. Raises: Problem."""
    asker = who(request)
    if not cluster:
        return asker.user
    if asker.role is not Role.OPERATOR:
        raise Problem(403, f"{asker.user} has the role {asker.role}; webhooks of the cluster are for operators")
    return ""
