"""Arrays of jobs in commands: verbs act on all their jobs, and `list` has a line for each array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.array_rows import summed
from ..core.phase import Phase
from .exit_codes import JobNotFound

if TYPE_CHECKING:
    from ..client.client import Client
    from ..core.schemas import JobRow


def is_array(name: str) -> bool:
    """Return whether a name is the id of an array, as sweep+7; no job's name has a plus."""
    return "+" in name


def expanded(
    client: Client, names: Sequence[str], resolve: Callable[[Client, str], str], ended: bool
) -> list[str]:
    """Return ids of jobs: of an array those of its jobs that have not ended.

    Args:
        resolve: returns the id of one job.
        ended: whether jobs of arrays that failed or were cancelled are meant, too.
    """
    found: list[str] = []
    for name in names:
        found += _jobs_of(client, name, ended) if is_array(name) else [resolve(client, name)]
    return list(dict.fromkeys(found))


def rows_of(client: Client, array: str) -> list[JobRow]:
    """Return the rows of an array's jobs. Raises: JobNotFound for an array that has none."""
    rows = list(client.jobs(array=array))
    if not rows:
        raise JobNotFound(f"no array {array}; `coadapt list` shows those of now")
    return rows


def _jobs_of(client: Client, array: str, ended: bool) -> list[str]:
    rows = rows_of(client, array)
    left_out = (Phase.SUCCEEDED,) if ended else tuple(phase for phase in Phase if phase.is_terminal)
    return [row["id"] for row in rows if Phase(row["phase"]) not in left_out]


def folded(rows: Iterable[JobRow], every: Callable[[str], Sequence[JobRow]]) -> list[JobRow]:
    """Return rows with one in place of those of each array.

    Args:
        every: returns all jobs of an array.
    """
    found: dict[str, JobRow] = {}
    for row in rows:
        array = row.get("array", "")
        if not array:
            found[row["id"]] = row
        elif array not in found:
            found[array] = summed(every(array) or [row])
    return list(found.values())
