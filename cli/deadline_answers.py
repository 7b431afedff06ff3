"""What jobs are told of their deadlines: right after submission, and what would have to give."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.deadline_answer import Answer
from ..core.deadline_view import in_words
from ..core.errors import StateError

if TYPE_CHECKING:
    from ..client.client import Client

WAIT_S, LOOK_S = 5.0, 0.25


def answers(client: Client, ids: Sequence[str], wait_s: float = WAIT_S) -> dict[str, str]:
    """Return what jobs that were just submitted are told of their deadlines, a line each.

    The service answers when it has foretold the next round. Nobody is kept waiting longer than `wait_s`.
    """
    from ..client.http_api import AccessError, RequestError

    found: dict[str, str] = {}
    until_s = time.monotonic() + wait_s
    while ids:
        now = time.time()
        try:
            rows = client.jobs(ids=[job for job in ids if job not in found])
        except (AccessError, RequestError, StateError):  # they are submitted all the same
            break
        for row in rows:
            if (told := row.get("deadline")) is not None:
                found[row["id"]] = f"deadline: {in_words(told, now)}"
        if len(found) == len(ids) or time.monotonic() > until_s:
            break
        time.sleep(LOOK_S)  # between two looks, up to a limit
    return {job: found.get(job) or later(job) for job in ids}


def later(job: str) -> str:
    """Return that nothing is known yet."""
    return f"deadline: it is not foretold yet; `coadapt explain {job}` tells whether it holds"


def what_would_give(client: Client, job: str) -> list[str]:
    """Return what would have to give for a job's deadline to hold; nothing where it does, or nobody knows."""
    from ..client.http_api import AccessError, RequestError

    told = next((row.get("deadline") for row in client.jobs(ids=[job])), None)
    if told is None or not Answer(told["answer"]).holds_not:
        return []
    try:
        return list(client.deadline(job).get("gives", ()))
    except (AccessError, RequestError, StateError) as error:
        return [f"What would have to give for its deadline to hold is not known: {error}"]
