"""The parts of a continual program: requests, resources and constraints, and where each lies in the storage."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import inputs
from .blocks import COLUMNS, ROW, ROWS
from .inputs import LARGEST, Coefficients, Triplets
from .storage import CAPACITY, CONSTRAINT, OWN, Storage
from .uses import Users, Uses


class Structure:
    """Requests, resources and constraints by name, and the storage of their coefficients.

    Every change is made whole, or refused with everything left as it was. Errors are those of `ContinualProgram`.
    """

    def __init__(self, maximise: bool = False) -> None:
        self.maximise = maximise
        self._storage = Storage()
        self._blocks: dict[Hashable, int] = {}  # numbers in the storage
        self._terms: dict[Hashable, set[str]] = {}  # constraints that requests are part of
        self._capacities: dict[str, int] = {}
        self._users: dict[str, Users] = {}
        self._constraints: dict[str, int] = {}
        self._members: dict[str, set[Hashable]] = {}
        self._busy = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_busy"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._busy = threading.Lock()

    def __repr__(self) -> str:
        of = f"requests={len(self._blocks)}, variables={len(self)}, resources={len(self._capacities)}"
        return f"{type(self).__name__}({of}, constraints={len(self._constraints)}, maximise={self.maximise})"

    def __len__(self) -> int:
        """Return the number of variables."""
        return self._storage.columns.live

    def __contains__(self, id: Hashable) -> bool:
        return id in self._blocks

    @property
    def requests(self) -> tuple[Hashable, ...]:
        return tuple(self._blocks)

    # Resources and constraints

    def set_capacity(self, resource: str, upper: float, lower: float = -math.inf) -> None:
        """Bound what all requests use of a resource. An unknown resource is added."""
        inputs.hashable("resource", resource)
        sides = inputs.sides_of(f"capacity of {resource!r}", lower, upper)
        with self._changing():
            if resource not in self._capacities:
                self._capacities[resource] = self._storage.take_rows(1, CAPACITY)
                self._users[resource] = Users()
            self._set_sides(self._capacities[resource], sides)

    def remove_capacity(self, resource: str) -> None:
        """Remove a resource, and what requests use of it."""
        with self._changing():
            self._known(self._capacities, "resource", resource)
            users = self._users.pop(resource).among(self._blocks)
            self._drop_row(self._capacities.pop(resource), users)

    def add_constraint(
        self,
        name: str,
        terms: Mapping[tuple[Hashable, int], float],
        lower: float = -math.inf,
        upper: float = math.inf,
    ) -> None:
        """Add lower <= sum of coefficient * variable <= upper, over {(request, index): coefficient}.

        A removed request takes its terms along. The constraint stays.
        """
        inputs.hashable("constraint", name)
        with self._changing():
            if name in self._constraints:
                raise ValueError(f"constraint {name!r}: is there already; a name that is not taken is accepted")
            sides = inputs.sides_of(f"constraint {name!r}", lower, upper)
            by_request: dict[Hashable, list[tuple[int, float]]] = {}
            inputs.mapping(f"terms of constraint {name!r}", terms, "{(request, index): coefficient}")
            for term, given in terms.items():
                if not (isinstance(term, tuple) and len(term) == 2):
                    raise ValueError(f"constraint {name!r}: term {term!r} is not of (request, index)")
                id, index = term
                columns = self._columns(self._block(id))
                if not (isinstance(index, int | np.integer) and 0 <= index < columns):
                    raise ValueError(
                        f"constraint {name!r}: {id!r} has no variable {index}, only 0 to {columns - 1}"
                    )
                value = inputs.number(f"constraint {name!r}: coefficient of {term}", given)
                if not abs(value) < LARGEST:
                    raise ValueError(
                        f"constraint {name!r}: coefficient of {term} is {value}; numbers below {LARGEST:g} in size"
                        " are accepted"
                    )
                if value:
                    by_request.setdefault(id, []).append((index, value))
            slot = self._storage.take_rows(1, CONSTRAINT)
            self._constraints[name], self._members[name] = slot, set(by_request)
            self._set_sides(slot, sides)
            for id, own in by_request.items():
                block = np.array([self._blocks[id]])
                at = np.array([i for i, _ in own], dtype=np.int64)
                added = at, np.full(len(own), slot), np.array([v for _, v in own], dtype=float)
                self._storage.write(block, *inputs.joined([self._storage.read(block), added]))
                self._terms.setdefault(id, set()).add(name)

    def change_constraint(self, name: str, lower: float = -math.inf, upper: float = math.inf) -> None:
        """Give a constraint new sides."""
        with self._changing():
            self._known(self._constraints, "constraint", name)
            sides = inputs.sides_of(f"constraint {name!r}", lower, upper)
            self._set_sides(self._constraints[name], sides)

    def remove_constraint(self, name: str) -> None:
        """Remove a constraint."""
        with self._changing():
            self._known(self._constraints, "constraint", name)
            members = self._members.pop(name)
            for id in members:
                self._terms[id].discard(name)
            self._drop_row(self._constraints.pop(name), members)

    # Inside

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "the program is being solved or changed; changes are accepted once that has returned"
            )
        try:
            yield
        finally:
            self._busy.release()

    def _place(
        self,
        ids: Sequence[Hashable],
        sizes: np.ndarray,
        costs: np.ndarray,
        bounds: tuple[np.ndarray, np.ndarray],
        used: Triplets,
        own: Triplets,
        sides: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Store new requests. `own` are entries of their rows, counted over all requests, with their `sides`."""
        storage = self._storage
        blocks = storage.take_blocks(sizes.tolist(), len(sides[0]) // len(ids) if len(ids) else 0)
        self._blocks.update(zip(ids, blocks.tolist(), strict=True))
        columns, rows = storage.columns_of(blocks), storage.own_rows(blocks)
        storage.cost[columns] = -costs if self.maximise else costs
        storage.lower[columns], storage.upper[columns] = bounds
        storage.row_lower[rows], storage.row_upper[rows] = sides
        column, row, value = own
        storage.write(blocks, *inputs.joined([used, (column, rows[row], value)]))

    def _rewrite(
        self,
        id: Hashable,
        used: Triplets | None,
        defined: tuple[Triplets, tuple[np.ndarray, np.ndarray]] | None,
    ) -> None:
        """Replace the request's use of resources, its own rows, or both. What is None stays."""
        storage, block = self._storage, self._blocks[id]
        alone, where = np.array([block]), storage.blocks[block]
        column, row, value = storage.read(alone)
        kind = storage.kind[row]
        keep = np.ones(len(row), dtype=bool)
        if used is not None:
            keep &= kind != CAPACITY
        if defined is not None:
            keep &= kind != OWN
        parts = [(column[keep], row[keep], value[keep])]
        if used is not None:
            parts.append(used)
        if defined is not None:
            (own_column, own_row, own_value), (low, high) = defined
            if len(low) != where[ROWS]:
                storage.free_rows(int(where[ROW]), int(where[ROWS]))
                where[ROW], where[ROWS] = storage.take_rows(len(low), OWN), len(low)
            slots = storage.own_rows(alone)
            storage.row_lower[slots], storage.row_upper[slots] = low, high
            parts.append((own_column, own_row + where[ROW], own_value))
        storage.write(alone, *inputs.joined(parts))

    def _uses(self, what: str, uses: Mapping[str, Coefficients], count: int) -> Uses:
        parts = []
        inputs.mapping(f"uses of {what}", uses, "{resource: coefficients}")
        for resource, given in uses.items():
            if resource not in self._capacities:
                raise ValueError(f"uses of {what}: resource {resource!r} is unknown; set_capacity makes it known")
            parts.append(inputs.coefficients_of(f"uses of {what}, {resource!r}", given, count))
        return Uses.of([*uses], parts)

    def _entries(self, used: Uses) -> Triplets:
        return used.entries([self._capacities[name] for name in used.resources])

    def _note_users(self, ids: Sequence[Hashable], sizes: np.ndarray, used: Uses) -> None:
        for resource, users in zip(used.resources, used.users(ids, sizes), strict=True):
            self._users[resource].add(users, self._blocks)

    def _set_sides(self, slot: int, sides: tuple[float, float]) -> None:
        self._storage.row_lower[slot], self._storage.row_upper[slot] = sides

    def _drop_row(self, slot: int, members: Collection[Hashable]) -> None:
        storage, blocks = self._storage, np.sort(self._several(members))
        column, row, _ = storage.read(blocks)
        owner = np.repeat(np.arange(len(blocks)), storage.blocks[blocks, COLUMNS])
        blocks = blocks[np.unique(owner[column[row == slot]])]
        column, row, value = storage.read(blocks)
        keep = row != slot
        storage.write(blocks, column[keep], row[keep], value[keep])
        storage.free_rows(slot, 1)

    def _compact(self, always: bool = False) -> None:
        if not (always or self._storage.wasteful):
            return
        self._storage.compact(self._all_blocks(), self._single_rows())
        self._blocks = {id: number for number, id in enumerate(self._blocks)}
        for users in self._users.values():
            users.among(self._blocks)
        self._capacities = {name: i for i, name in enumerate(self._capacities)}
        first = len(self._capacities)
        self._constraints = {name: first + i for i, name in enumerate(self._constraints)}

    def _single_rows(self) -> np.ndarray:
        return np.array([*self._capacities.values(), *self._constraints.values()], dtype=np.int64)

    def _all_blocks(self) -> np.ndarray:
        return np.fromiter(self._blocks.values(), np.int64, len(self._blocks))

    def _block(self, id: Hashable) -> int:
        self._known(self._blocks, "request", id)
        return self._blocks[id]

    def _columns(self, block: int) -> int:
        return int(self._storage.blocks[block, COLUMNS])

    def _several(self, ids: Collection[Hashable]) -> np.ndarray:
        try:
            return np.fromiter(map(self._blocks.__getitem__, ids), np.int64, len(ids))
        except KeyError as error:
            self._block(error.args[0])  # raises an error that says that it is unknown
            raise

    @staticmethod
    def _known(among: Mapping[Any, Any], what: str, name: Hashable) -> None:
        inputs.hashable(what, name)
        if name not in among:
            raise ValueError(f"{what} {name!r}: is unknown; one of the {len(among)} that were added is accepted")
