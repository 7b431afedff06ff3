"""Keeps what each round decided and how long it took: what a person asks after a strange night."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...core.identity import Reader
from ...core.placement import Placement
from ...policies.contract.round import Note
from ..access.others_jobs import OthersJobs
from ..runtime.clock import Clock
from ..store import rounds
from ..store.failures import StoreFailure
from ..store.store import Store
from .hooks import CycleHook, RoundDone
from .kept_options import KeptOptions
from .round_moves import moves_of

MOST_NAMED = 100  # jobs of each kind that are named; all are counted
MOST_REASONS = 200  # waiting jobs, the oldest, whose reasons are worked out; one may take 0.15 ms


class RoundLog(CycleHook):
    """Writes each round, also one that was not planned. Retention bounds how many there are."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._done: RoundDone | None = None
        self._errors: list[str] = []
        self._options = KeptOptions()

    def planned(self, done: RoundDone) -> None:
        """Take note of a plan, until its round is over."""
        self._done = done

    def unplanned(self, why: str) -> None:
        """Take note of why a round, or a part of it, has no plan."""
        self._errors.append(why)

    def stepped(self, timings: Mapping[str, float]) -> None:
        """Write the round, if the cycle had one."""
        if "plan" not in timings:
            return
        done, errors = self._done, self._errors
        self._done, self._errors = None, []
        now = self._clock.steady_s() if done is None else done.round.now
        try:
            self._store.write(rounds.append(now, told(done, errors, timings) | self._optional(done)))
        except StoreFailure:
            return  # the watch of the store tells it, and the next round is written again

    def _optional(self, done: RoundDone | None) -> dict[str, Any]:
        """Return the options of jobs, as far as they have changed."""
        if done is None:
            return {}
        changed = [row["job"] for rows in changes_of(done).values() for row in rows]
        options = self._options.of(done, changed)
        return {"options": options} if options else {}


def told(done: RoundDone | None, errors: Iterable[str], timings: Mapping[str, float]) -> dict[str, Any]:
    """Return what is kept of a round; `done`: None for one that was not planned."""
    found: dict[str, Any] = {"round": None, "phases": {name: round(s, 6) for name, s in timings.items()}}
    found |= {"seconds": round(sum(timings.values()), 6), "errors": list(errors)}
    if done is None:
        return found | {"jobs": None, "counts": {}, "waiting": {}} | _changes({}) | _figures()
    plan = done.plan
    changes = changes_of(done)
    waiting = waiting_of(done)
    return (
        found
        | {"round": done.number, "jobs": len(done.round.columns.ids), "waiting": waiting[0]}
        | {"counts": {name: len(rows) for name, rows in changes.items()} | {"waiting": waiting[1]}}
        | _changes(changes)
        | _figures(plan.objective, plan.bound, plan.gap)
        | moves_of(done)
        | {"prices": {gpu_type: float(f"{price:.4g}") for gpu_type, price in plan.prices.items()}}
        | _notes(plan.notes[:MOST_NAMED])
    )


def changes_of(done: RoundDone) -> dict[str, list[dict[str, str]]]:
    """Return which jobs the plan places, moves, stops and measures, with what they had and get."""
    columns, placements = done.round.columns, done.plan.placements
    found: dict[str, list[dict[str, str]]] = {"placed": [], "moved": [], "stopped": [], "measured": []}
    for job_id, before in zip(columns.ids.tolist(), columns.placements.tolist(), strict=True):
        after = placements.get(job_id)
        if after == before:
            continue
        kind = "placed" if before is None else "stopped" if after is None else "moved"
        row = {"job": job_id, "before": _gpus(before), "after": _gpus(after)}
        if "/" not in job_id:
            found[kind].append(row)
        elif after is not None:
            found["measured"].append({**row, "job": job_id.partition("/")[0]})
    return found


def waiting_of(done: RoundDone) -> tuple[dict[str, int], int]:
    """Return how many of the oldest waiting jobs wait by the code of their reason, and how many wait in all."""
    ids = [job_id for job_id in done.round.columns.ids.tolist() if job_id not in done.plan.placements]
    reasons = [done.wait_reason(job_id) for job_id in ids[:MOST_REASONS]]
    return dict(Counter(reason.value for reason in reasons if reason is not None)), len(ids)


def _changes(found: Mapping[str, list[dict[str, str]]]) -> dict[str, Any]:
    return {name: found.get(name, [])[:MOST_NAMED] for name in ("placed", "moved", "stopped", "measured")}


def _notes(notes: Sequence[Note]) -> dict[str, Any]:
    """Return notes on no job in particular, and those on jobs: not everybody reads these."""
    of_jobs = [{"job": note.job, "text": note.text} for note in notes if note.job is not None]
    return {"notes": [note.text for note in notes if note.job is None], "job_notes": of_jobs}


def told_to(row: Mapping[str, Any], others: OthersJobs, reader: Reader | None) -> dict[str, Any]:
    """Return a round as it is told to a user; `reader`: only with what that user may read, None: all of it."""
    found = {name: value for name, value in row.items() if name != "options"}
    of_jobs = found.pop("job_notes", None)
    notes = list(found.pop("notes", ()))
    if reader is not None:
        # An earlier version did not tell notes on jobs from others.
        notes = [] if of_jobs is None else others.hidden(notes, reader)
        of_jobs = [note for note in of_jobs or () if others.may_read(note["job"], reader)]
        found["errors"] = [others.error(text, reader) for text in found["errors"]]
    notes += [
        others.hidden(note["text"], reader) if reader is not None else note["text"] for note in of_jobs or ()
    ]
    return found | ({"notes": notes} if "notes" in row else {})


def _figures(
    objective: float = math.nan, bound: float = math.nan, gap: float = math.nan
) -> dict[str, float | None]:
    figures = {"objective": objective, "bound": bound, "gap": gap}
    return {name: float(value) if math.isfinite(value) else None for name, value in figures.items()}


def _gpus(placement: Placement | None) -> str:
    return "" if placement is None else f"{placement.gpus}x{placement.gpu_type}"
