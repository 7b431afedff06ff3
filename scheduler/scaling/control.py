"""Decides which nodes are asked for and which are given up. It knows neither Ray nor clocks.

A change is first returned as a new state, which is stored, and only then acted on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...core.scaling_settings import ScalingSettings
from ...core.wording import span
from ...policies.contract.round import Plan, Round
from .choice import Chosen, Needs, Room, choose
from .state import Known, Leaving, LeftOut, Request, ScalingState
from .worth import Worth


@dataclass(frozen=True)
class SeenNode:
    """A living node of a type that can be bought.

    busy: what of ours is on it, or is about to be; "": nothing.
    stays: why it may not be given up; "": it may.
    noticed: whether its cloud has told that it takes the node away.
    """

    id: str
    machine: str
    type: str
    busy: str = ""
    stays: str = ""
    noticed: bool = False


@dataclass(frozen=True)
class Turn:
    """What one turn changes: the state, and lines for the log."""

    state: ScalingState
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Buys:
    """Nodes to ask for, with the line that tells it."""

    told: str
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class _GivesUp:
    """A node to give up, with the line that tells it."""

    told: str
    node: str
    leaving: Leaving


@dataclass
class ScalingControl:
    """Buys nodes and gives them up.

    What is not stored is counted anew after a restart: rounds in which a need lasted, and how long nodes are idle.
    """

    settings: ScalingSettings
    needs: Needs = field(init=False)
    chosen: Chosen = field(default_factory=Chosen, init=False)  # after the last round, for people
    would: tuple[str, ...] = field(default=(), init=False)  # in a dry run, what would be done now
    idle_since: dict[str, float] = field(default_factory=dict, init=False)
    _would_buy: tuple[str, ...] = field(default=(), init=False)
    _round: tuple[Round, Plan] | None = field(default=None, init=False)
    _looked_s: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.needs = Needs(self.settings)

    def change(self, settings: ScalingSettings) -> None:
        """Go on with other settings."""
        self.settings = self.needs.settings = settings

    def take(self, round: Round, plan: Plan) -> None:
        """Take a round that was planned. The next `turn` decides by it."""
        self._round = round, plan

    def turn(self, state: ScalingState, seen: Mapping[str, SeenNode], now: float) -> Turn:
        """Return what becomes of the state. `seen`: nodes by id."""
        told = list[str]()
        state = self._counted(state, seen, now)
        state = self._seen(state, seen, now, told)
        state = self._overdue(state, now, told)
        state = self._left(state, seen, now, told)
        fresh = self._round is not None
        buys, gives_up = self._buys(state, now), self._gives_up(state, seen, now)
        if self.settings.mode == "dry_run":
            self._would_buy = tuple(one.told for one in buys) if fresh else self._would_buy
            self.would = (*self._would_buy, *(one.told for one in gives_up))
            return Turn(state, tuple(told))
        self.would = self._would_buy = ()
        requests = tuple(request for one in buys for request in one.requests)
        return Turn(
            replace(
                state,
                requests=(*state.requests, *requests),
                numbered=state.numbered + len(requests),
                leaving={**state.leaving, **{one.node: one.leaving for one in gives_up}},
            ),
            (*told, *(one.told for one in buys), *(one.told for one in gives_up)),
        )

    # --- what is seen ---------------------------------------------------------------------------------------

    def _counted(self, state: ScalingState, seen: Mapping[str, SeenNode], now: float) -> ScalingState:
        """Count dollars, hours of nodes, notices, and how long nodes are idle."""
        hours = 0.0 if self._looked_s is None else max(now - self._looked_s, 0.0) / 3600.0
        self._looked_s = now
        idle = {id for id, node in seen.items() if not node.busy}
        self.idle_since = {id: self.idle_since.get(id, now) for id in idle}
        new = sorted(id for id, node in seen.items() if node.noticed and id not in state.noticed)
        notices = Counter(state.notices)
        notices.update(seen[id].type for id in new)
        if not hours and not new:
            return state
        node_hours = dict(state.node_hours)
        for name, count in state.here.items():
            node_hours[name] = node_hours.get(name, 0.0) + count * hours
        return replace(
            state,
            spent=state.spent + hours * self.settings.cost_per_h(state.all),
            node_hours=node_hours,
            notices=dict(notices),
            noticed=(*(id for id in state.noticed if id in seen), *new),
        )

    def _seen(
        self, state: ScalingState, seen: Mapping[str, SeenNode], now: float, told: list[str]
    ) -> ScalingState:
        """Take note of nodes that have come and gone. A node that comes meets the oldest request for its type.

        If no job ever used a node that was bought and went, its type is left out for a while.
        """
        nodes, requests, left_out = dict(state.nodes), list(state.requests), dict(state.left_out)
        for id in [id for id in nodes if id not in seen]:
            gone, left = nodes.pop(id), state.leaving.get(id)
            given_up = ", as it was given up" if left is not None else ""
            told.append(f"{left.machine if left is not None else id[:12]} has gone{given_up}")
            if left is not None and gone.bought and not gone.used:
                left_out[gone.type] = LeftOut(now + self.settings.leave_out_s, "no job used the last one")
        for id, node in sorted(seen.items()):
            if id in nodes:
                if node.busy and not nodes[id].used:
                    nodes[id] = replace(nodes[id], used=True)
                continue
            met = next((one for one in requests if one.type == node.type), None)
            nodes[id] = Known(node.type, now, bool(node.busy), bought=met is not None)
            if met is not None:
                requests.remove(met)
                after = span(now - met.since_s)
                told.append(f"{node.machine} of type {node.type} has come, {after} after it was asked for")
        if nodes == state.nodes:
            return state
        return replace(
            state,
            nodes=nodes,
            requests=tuple(requests),
            left_out=left_out,
            leaving={id: one for id, one in state.leaving.items() if id in nodes},
            had=state.had | {one.type for one in nodes.values()},
        )

    def _overdue(self, state: ScalingState, now: float, told: list[str]) -> ScalingState:
        """Give up requests that were not met in time, and leave their types out for a while.

        Ray's autoscaler does nothing at all of a wish of which it cannot do a part. So an overdue type of
        which no node was ever there is the one to blame, and the others get as long again.
        """
        settings = self.settings
        late = [one for one in state.requests if now - one.since_s > settings.request_limit_s]
        unknown = [one for one in state.requests if one.type not in settings.types]
        if late:
            strange = [one for one in late if one.type not in state.had]
            given_up, again = strange or late, bool(strange)
            types = {one.type for one in given_up}
            left_out = dict(state.left_out)
            for name in sorted(types):
                why = f"no node of it came in {span(settings.request_limit_s)}"
                if name not in state.had:
                    why += ", nor ever; Ray's autoscaler may not know it"
                left_out[name] = LeftOut(now + settings.leave_out_s, why)
                lost = _nodes(sum(one.type == name for one in state.requests), name)
                out = span(settings.leave_out_s)
                told.append(f"{lost} not waited for any more: {why}; it is left out for {out}")
            kept = [one for one in state.requests if one.type not in types]
            if again:
                kept = [replace(one, since_s=now) for one in kept]
            gone = len(state.requests) - len(kept)
            state = replace(state, requests=tuple(kept), left_out=left_out, unmet=state.unmet + gone)
        if unknown:
            state = replace(state, requests=tuple(one for one in state.requests if one.type in settings.types))
        over = [name for name, one in state.left_out.items() if now >= one.until_s]
        if over:
            told += [f"nodes of type {name} may be asked for again" for name in sorted(over)]
            state = replace(
                state, left_out={name: one for name, one in state.left_out.items() if name not in over}
            )
        return state

    def _left(
        self, state: ScalingState, seen: Mapping[str, SeenNode], now: float, told: list[str]
    ) -> ScalingState:
        """Let go of nodes on which nothing of ours is; take back those that are needed, or that do not end."""
        leaving = dict(state.leaving)
        for id, one in state.leaving.items():
            node = seen.get(id)
            if node is None:
                continue
            if not one.dropped and node.busy:
                del leaving[id]
                told.append(f"{one.machine} is kept: {node.busy}")
            elif not one.dropped and now > one.since_s:
                leaving[id] = replace(one, dropped=True, since_s=now)
            elif one.dropped and now - one.since_s > self.settings.request_limit_s:
                del leaving[id]
                self.idle_since[id] = now
                told.append(
                    f"{one.machine} is used again: it was given up, and Ray's autoscaler has not ended it in "
                    f"{span(self.settings.request_limit_s)}"
                )
        return state if leaving == state.leaving else replace(state, leaving=leaving)

    # --- what is done ---------------------------------------------------------------------------------------

    def _buys(self, state: ScalingState, now: float) -> list[_Buys]:
        """Return what lacks to the least of each type, and after a round what a need that has lasted is met by."""
        wanted = self._least(state)
        if self._round is not None:
            round, plan = self._round
            self._round = None
            lacking = self.needs.note(round, plan, state.asked)
            ahead = tuple(Request(0, one.type, now, "") for one in wanted for _ in range(one.nodes))
            # A type of which a node leaves is asked for once it has gone.
            leave = {one.type: LeftOut(now, "one of its nodes leaves") for one in state.leaving.values()}
            then = replace(state, requests=(*state.requests, *ahead), left_out={**state.left_out, **leave})
            self.chosen = choose(then, self.settings, self.needs, round, plan, lacking)
            wanted += self.chosen.buy
            if self.chosen.buy and self.settings.mode == "act":
                self.needs.prices.clear()  # jobs for which nodes come do not count as waiting
        found, number = list[_Buys](), state.numbered
        for one in wanted:
            price = self.settings.types[one.type].price_per_h
            each = " each" if one.nodes > 1 else ""
            told = f"{_nodes(one.nodes, one.type)} asked for, at {price:g} an hour{each}: {one.reason}"
            ids = range(number + 1, number + one.nodes + 1)
            found.append(_Buys(told, tuple(Request(id, one.type, now, one.reason) for id in ids)))
            number += one.nodes
        return found

    def _least(self, state: ScalingState) -> list[Worth]:
        """Return nodes that lack to the least of each type."""
        room, found = Room(self.settings, state.all, state.left_out), list[Worth]()
        leaves = {one.type for one in state.leaving.values()}
        for name, type in self.settings.types.items():
            lacks = min(type.min - state.all.get(name, 0), room.most(name))
            if lacks > 0 and name not in leaves:
                found.append(Worth(name, lacks, 0.0, 0.0, f"there are at least {type.min}"))
                room = room.without(name, lacks)
        return found

    def _gives_up(self, state: ScalingState, seen: Mapping[str, SeenNode], now: float) -> list[_GivesUp]:
        """Return nodes that were idle for long enough, of types of which none is asked for."""
        found = list[_GivesUp]()
        staying = Counter(state.staying)
        for id, node in sorted(seen.items()):
            known, type = state.nodes.get(id), self.settings.types.get(node.type)
            if known is None or type is None or id in state.leaving or node.stays or node.noticed:
                continue
            idle_s = now - self.idle_since.get(id, now)
            if node.busy or idle_s < self.settings.idle_s or now - known.since_s < self.settings.keep_s:
                continue
            if staying[node.type] <= type.min or state.asked.get(node.type, 0):
                continue
            staying[node.type] -= 1
            why = f"nothing ran there for {span(idle_s)}"
            told = f"{node.machine} is given up: {why}, and it costs {type.price_per_h:g} an hour"
            found.append(_GivesUp(told, id, Leaving(node.machine, node.type, now, why)))
        return found


def _nodes(count: int, type: str) -> str:
    return f"{count} node{'s' * (count > 1)} of type {type} {'are' if count > 1 else 'is'}"
