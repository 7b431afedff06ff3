"""Lets replicas begin with the same parameters, and take in the same new ones."""

from __future__ import annotations

from ..collective.group import Group
from ..gradients.gradients import Gradients
from ..sharding.local import is_sharded, locals_of
from ..state.prepared import Prepared
from ..state.training_state import Position
from ..variables import script_random
from ..variables.script_random import GLOBALS
from .peers import Peers


class SameParameters:
    """Gives all replicas what replica 0 has: before the first step, and when the script adds parameters."""

    def __init__(self, prepared: Prepared, position: Position, gradients: Gradients, peers: Peers) -> None:
        self._prepared, self._position, self._gradients, self._peers = prepared, position, gradients, peers
        self._held = prepared.held_count()
        self._aligned = -1  # generation of the group whose members have begun alike

    def align(self, group: Group) -> None:
        """Take replica 0's weights and the state of its random generators, before the first step.

        A script may set weights at random between `prepare` and its loop.
        """
        if self._position.iterations or self._aligned == group.generation:
            return
        self._aligned = group.generation
        if group.world_size == 1:
            return
        prepared = self._prepared
        beside = [t for module in prepared.companions for t in (*module.parameters(), *module.buffers())]
        if group.shards is None:
            group.broadcast_tensors([*prepared.parameters(), *prepared.buffers(), *beside], 0)
        else:
            everything = [*prepared.parameters(), *beside]
            group.column.broadcast_tensors(locals_of(everything), 0)
            group.broadcast_tensors([t for t in [*prepared.buffers(), *beside] if not is_sharded(t)], 0)
        mine = [script_random.state_of(generator) for generator in GLOBALS]
        for generator, state in zip(GLOBALS, group.gather_objects(mine)[0], strict=True):
            script_random.put_back(generator, state)

    def take_in_new(self) -> None:
        """Take in parameters that the script has given an optimizer meanwhile, as they are on replica 0."""
        held, self._held = self._held, self._prepared.held_count()
        if held == self._held:
            return
        added = self._gradients.parameters_changed()
        if self._peers.group is not None and added:
            self._peers.group.column.broadcast_tensors(locals_of(added), 0)

    def regrouped(self) -> None:
        """Note that the new group knows the parameters that optimizers hold now."""
        self._held = self._prepared.held_count()

    def sync_buffers(self) -> None:
        """Take rank 0's running statistics, which differ from rank to rank. Raises GroupBroken."""
        if self._peers.group is not None:
            self._peers.group.broadcast_tensors(self._prepared.buffers(), 0)
