"""Lets a new group agree on one state: that of its most advanced member, or of the newest checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...protocol.messages import Join
from ..collective.broadcast import broadcast_state
from ..collective.group import Group, GroupBroken
from ..sharding.states import from_parts, in_parts, meshes_of
from ..state.forked import forked, go_on_as_fork
from ..state.prepared import Prepared
from ..state.training_state import TrainingState
from ..variables.own_variables import OwnVariables, share_of
from .catching_up import CatchingUp, Unfit
from .findings import Findings
from .sample_counts import SampleCounts
from .session_checkpoints import SessionCheckpoints


@dataclass(eq=False)
class StateHandover:
    """Hands the state of a run to those that join it."""

    prepared: Prepared
    state: TrainingState
    samples: SampleCounts
    variables: OwnVariables
    findings: Findings
    catching_up: CatchingUp
    checkpoints: SessionCheckpoints

    def __post_init__(self) -> None:
        self.live = False  # whether this process holds the state of a run, not just the script's initial one
        self.replicas_before = 0  # how many replicas the group before had

    def take_over(self, group: Group, join: Join) -> str:
        """Go on from the most advanced live rank, on all ranks; returns where this rank's state came from.

        Raises GroupBroken, and Unfit where this rank cannot take the state over.
        """
        source = self._agree(group, join)
        self.replicas_before = join.world_size
        return source

    def _agree(self, group: Group, join: Join) -> str:
        position = self.state.position
        ranks = group.gather_ints(
            [
                int(self.live),
                *position.key,
                position.iterations,
                int(position.target_reached),
                int(self.variables.known_as_one),
                self.replicas_before,
                *map(int, self.findings.learned()),
            ]
        )
        for words in ranks:
            self.findings.learn([bool(word) for word in words[9:]])
        progress = [words[:7] for words in ranks]
        best = max(range(group.world_size), key=lambda rank: (progress[rank], -rank))
        if not ranks[best][0]:
            return self._start(group)
        here = progress[group.rank] == progress[best]
        seen_as_one = all(words[7] for words in ranks if words[:7] == progress[best])
        before = ranks[best][8]
        if not seen_as_one and (group.world_size > 1 or before > 1):
            self.variables.look_as_one(group, self.samples.since, here, before)
        if not all(words == progress[best] for words in progress):
            state = self._sent(group, best // group.processes)
            self._apply(group, state, here)
        if here and group.world_size + before > 2:
            self.variables.take_share(join.rank, join.world_size)
            self.samples.go_on_from(share_of(position.pass_samples, join.rank, join.world_size))
        self.variables.forget_as_one()
        return "peer"

    def _sent(self, group: Group, source: int) -> dict[str, Any]:
        """Return the state of replica `source`, on all: each process has its own shards of the other replica's."""
        mine = self.state.capture() if group.rank // group.processes == source else None
        if group.shards is None:
            return broadcast_state(group, mine, source)
        column = group.column
        sent = (
            broadcast_state(column, in_parts(mine) if mine is not None else None, source)
            if column.world_size > 1
            else in_parts(mine)
        )
        return from_parts(sent, meshes_of(self.prepared.parameters()))

    def _apply(self, group: Group, state: dict[str, Any], here: bool) -> None:
        """Let newcomers take the state over.

        Raises Unfit here, and GroupBroken elsewhere, where a newcomer's script has become another one.
        """
        why = ""
        if not here:
            try:
                self.catching_up.take_over(state, group.data_rank % group.data_width)
                self.catching_up.of_peers = True
            except ValueError as error:
                why = str(error)
        fits = group.gather_ints([not why])
        if why:
            raise Unfit(f"the job cannot grow: {why.removeprefix('checkpoint: ')}")
        if not all(fit for (fit,) in fits):
            group.fail()
            raise GroupBroken

    def _start(self, group: Group) -> str:
        """Begin where nobody trained yet: from the newest checkpoint, or from rank 0's initial state."""
        store = self.checkpoints.store
        found = store.load_newest(self.prepared.device) if group.rank == 0 and store else None
        if found is not None and forked(found[1]):
            go_on_as_fork(found[1], self.state.options, self.prepared)
        (restored,) = group.broadcast_ints([int(found is not None)])
        state: dict[str, Any] | None
        if restored or group.shards is None:
            state = (found[1] if found is not None else self.state.capture()) if group.rank == 0 else None
            if state is not None and group.shards is None:
                state = self.checkpoints.filled(state, group)
            state = broadcast_state(group, state, 0) if group.world_size > 1 else state
        else:
            state = self._sent(group, 0)
        if state is not None and restored:
            state = self.checkpoints.filled(state, group)
            self.catching_up.take_over(state, group.data_rank % group.data_width)
        elif state is not None and group.rank != 0:
            self.state.apply(state, group.data_rank % group.data_width)
        return "checkpoint" if restored else "fresh"
