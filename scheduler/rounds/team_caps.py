"""Caps of teams as the launcher keeps them while jobs move: each is room of which GPUs that are held take some."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...core.resources import Resources, add
from ...core.slot import Slot
from ...core.teams import Teams, in_pool, kind_of
from ..jobs.record import JobRecord
from .launcher import total

_NONE: Mapping[str, str] = {}


class TeamCaps:
    """The caps of all teams, by names that no node has. Profile runs count for no team."""

    def __init__(self, teams: Teams | None) -> None:
        self._teams = teams if teams is not None and any(team.cap for team in teams.teams.values()) else None
        self._named: dict[tuple[str, str | None], Mapping[str, str]] = {}
        self._most: dict[str, int] = {}

    def of(self, job: JobRecord) -> Mapping[str, str]:
        """Return the name of the cap that counts for a job on each GPU type; a type without one is absent."""
        if self._teams is None or (team := self._teams.counted_for(job.spec.team)) is None:
            return _NONE
        key = team, job.spec.pool
        if key not in self._named:
            caps = in_pool(self._teams.teams[team].cap, job.spec.pool)
            names = {gpu_type: f"cap of {team} on {kind_of(gpu_type, job.spec.pool)}" for gpu_type in caps}
            self._named[key] = names
            self._most |= {names[gpu_type]: most for gpu_type, most in caps.items()}
        return self._named[key]

    def room(
        self, named: Collection[str], settled: Iterable[tuple[JobRecord, Iterable[Slot]]]
    ) -> dict[str, Resources]:
        """Return what settled jobs leave of some caps: as CPUs, for each GPU one."""
        room = {name: Resources(cpus=self._most[name]) for name in named}
        for job, slots in settled if room else ():
            counts = total(slots, self.of(job))
            add(room, {name: amount for name, amount in counts.items() if name in room}, -1.0)
        return room
