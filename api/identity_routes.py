"""Users and their tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from ..core.identity import Role
from . import bodies
from .bodies import WITHOUT_NUL
from .context import answer, ask, change, context, who
from .problems import Problem

router = APIRouter(prefix="/v1")
User = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}$")]
MOST_DAYS = 3650.0


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class UserBody(_Body):
    """A user's role, and whether its tokens are good."""

    role: Role = Role.USER
    disabled: bool = False


class TokenBody(_Body):
    """A new token. `user`: whose; by default one's own."""

    user: Annotated[str, Field(min_length=1, max_length=63, pattern=WITHOUT_NUL)] | None = None
    label: Annotated[str, Field(max_length=100, pattern=WITHOUT_NUL)] = ""
    days: Annotated[float, Field(gt=0, le=MOST_DAYS)] | None = None


@router.get("/users")
async def users(request: Request) -> Response:
    """Return all users."""
    return answer(await ask(request, "users"))


@router.put("/users/{user}")
async def put_user(request: Request, user: User) -> Response:
    """Make a user, or change its role."""
    body = await bodies.read(request, UserBody)
    changed = await change(request, "put_user", user, body.role.value, body.disabled)
    context(request).forget_tokens()
    return answer({"changed": changed})


@router.get("/tokens")
async def tokens(request: Request) -> Response:
    """Return one's own tokens; to operators, those of all. None is shown itself."""
    asker = who(request)
    return answer(await ask(request, "tokens", None if asker.role is Role.OPERATOR else asker.user))


@router.post("/tokens", status_code=201)
async def new_token(request: Request) -> Response:
    """Make a token, and show it this once."""
    body, asker = await bodies.read(request, TokenBody), who(request)
    user = body.user or asker.user
    if user != asker.user and asker.role is not Role.OPERATOR:
        raise Problem(403, f"{asker.user} has the role {asker.role}; only an operator makes tokens for others")
    return answer(await change(request, "issue_token", user, body.label, body.days), 201)


@router.delete("/tokens/{token_id}")
async def revoke(request: Request, token_id: str) -> Response:
    """Revoke a token: one's own; an operator may revoke any."""
    asker = who(request)
    whose = None if asker.role is Role.OPERATOR else asker.user
    changed = await change(request, "revoke_token", token_id, whose)
    context(request).forget_tokens()
    return answer({"changed": changed})
