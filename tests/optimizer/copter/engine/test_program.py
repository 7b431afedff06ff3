"""After any changes a program is the one built anew; a refused change leaves no trace."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import ContinualProgram, Row
from coadapt.optimizer.linear_program import LinearProgram
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scipy import sparse

NUMBERS = st.integers(-3, 3).map(float)


def same(one: LinearProgram, other: LinearProgram) -> bool:
    return (
        one.matrix.shape == other.matrix.shape
        and (one.matrix != other.matrix).nnz == 0
        and all(
            np.array_equal(getattr(one, name), getattr(other, name))
            for name in ("cost", "lower", "upper", "row_lower", "row_upper")
        )
    )


@dataclass
class Plain:
    """What a program says, kept in the simplest way there is."""

    capacities: dict[str, tuple[float, float]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    constraints: dict[str, tuple[dict[tuple[str, int], float], float, float]] = field(default_factory=dict)

    def linear_program(self) -> LinearProgram:
        first: dict[str, int] = {}
        columns = 0
        for id, request in self.requests.items():
            first[id], columns = columns, columns + len(request["cost"])
        rows, low, high = [], [], []

        def add(entries: dict[int, float], lower: float, upper: float) -> None:
            rows.append([entries.get(column, 0.0) for column in range(columns)])
            low.append(lower)
            high.append(upper)

        for resource, (lower, upper) in self.capacities.items():
            entries = {}
            for id, request in self.requests.items():
                for i, value in enumerate(request["uses"].get(resource, [])):
                    entries[first[id] + i] = value
            add(entries, lower, upper)
        for terms, lower, upper in self.constraints.values():
            add({first[id] + i: v for (id, i), v in terms.items() if id in first}, lower, upper)
        for id, request in self.requests.items():
            for coefficients, lower, upper in request["rows"]:
                add({first[id] + i: v for i, v in enumerate(coefficients)}, lower, upper)
        each = self.requests.values()
        return LinearProgram(
            np.array([v for r in each for v in r["cost"]], dtype=float),
            sparse.csr_array(np.array(rows, dtype=float).reshape(len(rows), columns)),
            np.array(low),
            np.array(high),
            np.array([r["lower"] for r in each for _ in r["cost"]], dtype=float),
            np.array([r["upper"] for r in each for _ in r["cost"]], dtype=float),
        )


class Changes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.program, self.plain, self.made = ContinualProgram(), Plain(), 0

    def draw(self, data: st.DataObject, count: int) -> dict[str, Any]:
        vector = st.lists(NUMBERS, min_size=count, max_size=count)
        resources = sorted(self.plain.capacities)
        used = data.draw(st.lists(st.sampled_from(resources), unique=True)) if resources else []
        rows = data.draw(st.lists(st.tuples(vector, st.just(-1.0), NUMBERS.map(abs)), max_size=3))
        return {
            "cost": data.draw(vector),
            "uses": {resource: data.draw(vector) for resource in used},
            "rows": rows,
            "lower": -data.draw(NUMBERS.map(abs)),
            "upper": data.draw(NUMBERS.map(abs)),
        }

    @rule(resource=st.sampled_from("abc"), upper=NUMBERS)
    def set_capacity(self, resource: str, upper: float) -> None:
        self.program.set_capacity(resource, upper, lower=-5.0)
        self.plain.capacities[resource] = (-5.0, upper)

    @precondition(lambda self: self.plain.capacities)
    @rule(data=st.data())
    def remove_capacity(self, data: st.DataObject) -> None:
        resource = data.draw(st.sampled_from(sorted(self.plain.capacities)))
        self.program.remove_capacity(resource)
        del self.plain.capacities[resource]
        for request in self.plain.requests.values():
            request["uses"].pop(resource, None)

    @rule(data=st.data(), count=st.integers(0, 4))
    def add_request(self, data: st.DataObject, count: int) -> None:
        self.made += 1
        request = self.draw(data, count)
        self.plain.requests[f"r{self.made}"] = request
        self.program.add_request(f"r{self.made}", **{**request, "rows": [Row(*row) for row in request["rows"]]})

    @rule(data=st.data(), sizes=st.lists(st.integers(0, 3), max_size=4))
    def add_requests(self, data: st.DataObject, sizes: list[int]) -> None:
        """Add many at once, which is the same as one after another."""
        ids = [f"r{self.made + 1 + i}" for i in range(len(sizes))]
        self.made += len(sizes)
        flat = self.draw(data, sum(sizes))
        ends = np.cumsum(sizes, dtype=int)
        for id, first, last in zip(ids, ends - sizes, ends, strict=True):
            self.plain.requests[id] = {
                "cost": flat["cost"][first:last],
                "uses": {resource: given[first:last] for resource, given in flat["uses"].items()},
                "rows": [(given[first:last], lower, upper) for given, lower, upper in flat["rows"]],
                "lower": flat["lower"],
                "upper": flat["upper"],
            }
        rows = [
            Row(given, np.full(len(ids), lower), np.full(len(ids), upper)) for given, lower, upper in flat["rows"]
        ]
        self.program.add_requests(ids, sizes, **{**flat, "rows": rows})

    @precondition(lambda self: self.plain.requests)
    @rule(data=st.data())
    def change_request(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.plain.requests)))
        held = self.plain.requests[id]
        new = self.draw(data, len(held["cost"]))
        given = data.draw(st.lists(st.sampled_from(sorted(new)), unique=True))
        change = {name: new[name] for name in given}
        held.update(change)
        if "rows" in change:
            change["rows"] = [Row(*row) for row in change["rows"]]
        self.program.change_request(id, **change)

    @precondition(lambda self: self.plain.requests)
    @rule(data=st.data())
    def remove_requests(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.plain.requests)), unique=True, max_size=3))
        self.program.remove_requests(ids)
        for id in ids:
            del self.plain.requests[id]

    @precondition(lambda self: self.plain.requests)
    @rule(data=st.data())
    def change_costs(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.plain.requests)), unique=True))
        for id in ids:
            count = len(self.plain.requests[id]["cost"])
            self.plain.requests[id]["cost"] = data.draw(st.lists(NUMBERS, min_size=count, max_size=count))
        self.program.change_costs(ids, [np.array(self.plain.requests[id]["cost"], dtype=float) for id in ids])

    @precondition(lambda self: self.plain.requests and self.plain.capacities)
    @rule(data=st.data())
    def change_uses(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.plain.requests)), unique=True))
        resources = data.draw(st.lists(st.sampled_from(sorted(self.plain.capacities)), unique=True))
        uses: dict[str, list[float]] = {resource: [] for resource in resources}
        for id in ids:
            count = len(self.plain.requests[id]["cost"])
            for resource in resources:
                given = data.draw(st.lists(NUMBERS, min_size=count, max_size=count))
                self.plain.requests[id]["uses"][resource] = given
                uses[resource] += given
        self.program.change_uses(ids, uses)

    @precondition(lambda self: any(r["cost"] for r in self.plain.requests.values()))
    @rule(data=st.data(), upper=NUMBERS)
    def add_constraint(self, data: st.DataObject, upper: float) -> None:
        self.made += 1
        variables = [(id, i) for id, r in self.plain.requests.items() for i in range(len(r["cost"]))]
        terms = data.draw(st.dictionaries(st.sampled_from(variables), NUMBERS, max_size=4))
        self.program.add_constraint(f"c{self.made}", terms, upper=upper)
        self.plain.constraints[f"c{self.made}"] = (terms, -np.inf, upper)

    @precondition(lambda self: self.plain.constraints)
    @rule(data=st.data(), upper=NUMBERS, remove=st.booleans())
    def change_constraint(self, data: st.DataObject, upper: float, remove: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain.constraints)))
        if remove:
            self.program.remove_constraint(name)
            del self.plain.constraints[name]
        else:
            self.program.change_constraint(name, upper=upper)
            self.plain.constraints[name] = (self.plain.constraints[name][0], -np.inf, upper)

    @rule()
    def compact(self) -> None:
        self.program._compact(always=True)

    @invariant()
    def is_the_program_built_anew(self) -> None:
        assert same(self.program.linear_program(), self.plain.linear_program())


Changes.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
test_a_program_is_what_one_would_build_anew_after_any_changes = Changes.TestCase


def two_jobs() -> ContinualProgram:
    program = ContinualProgram(maximise=True)
    program.set_capacity("a100", 8.0)
    program.add_request("job-1", [1.0, 1.8], {"a100": [1, 2]}, [Row(1.0, upper=1.0)])
    program.add_request("job-2", [1.0, 1.5], {"a100": ([1], [4.0])}, [Row([1, 1], upper=1.0)], upper=[1.0, 2.0])
    program.add_constraint("together", {("job-1", 0): 1.0, ("job-2", 1): -1.0}, lower=0.0)
    return program


NAN, INF = float("nan"), float("inf")
REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("add_request", ("job-1", [1.0]), {}, "request 'job-1': is there already"),
    ("add_request", ("new", [1.0, NAN]), {}, "cost of 'new': entry 1 is nan"),
    ("add_request", ("new", [[1.0]]), {}, "cost of 'new': has shape"),
    ("add_request", ("new", [1.0], {"a100": [INF]}), {}, "uses of 'new', 'a100': has coefficients"),
    ("add_request", ("new", [1.0], {"a100": [1, 2]}), {}, r"uses of 'new', 'a100': has shape \(2,\)"),
    ("add_request", ("new", [1.0], {"a100": ([1], [1.0])}), {}, "indices reach from 1 to 1"),
    ("add_request", ("new", [1.0], {"a100": ([0, 0], [1.0, 2.0])}), {}, "has an index twice"),
    ("add_request", ("new", [1.0], {"tpu": [1.0]}), {}, "resource 'tpu' is unknown"),
    ("add_request", ("new", [1.0], {}, [Row([1.0, 2.0])]), {}, "row 0 of 'new': has shape"),
    ("add_request", ("new", [1.0], {}, [Row(1.0, 2.0, 1.0)]), {}, "row 0 of 'new': lower 2.0 and upper 1.0"),
    ("add_request", ("new", [1.0]), {"lower": 2.0, "upper": 1.0}, "bounds of 'new'"),
    ("add_request", ("new", [1.0]), {"upper": NAN}, "bounds of 'new'"),
    ("add_request", ("new", [1.0]), {"upper": [1.0, 2.0]}, "upper of 'new': has shape"),
    ("add_requests", (["new", "job-1"], [1, 1], [1.0, 1.0]), {}, "request 'job-1': is there already"),
    ("add_requests", (["new", "new"], [1, 1], [1.0, 1.0]), {}, "name a request twice among 2"),
    ("add_requests", (["new"], [1, 1], [1.0, 1.0]), {}, r"sizes: has shape \(2,\), not \(1,\)"),
    ("add_requests", (["new"], [-1], []), {}, "sizes: has entries that are not whole or below 0"),
    ("add_requests", (["new"], [1.0], [1.0]), {}, "sizes: has entries that are not whole"),
    ("add_requests", (["a", "b"], [1, 2], [1.0, 1.0]), {}, r"cost of 2 requests: has shape \(2,\), not \(3,\)"),
    (
        "add_requests",
        (["a", "b"], [1, 1], [1.0, 1.0], {}, [Row(1.0, np.array([0.0, 2.0]), 1.0)]),
        {},
        "row 0 of 2 requests: lower 2.0 and upper 1.0",
    ),
    (
        "add_requests",
        (["a", "b"], [1, 1], [1.0, 1.0], {}, [Row(1.0, np.zeros(3))]),
        {},
        "row 0 of 2 requests: a side",
    ),
    ("remove_requests", (["job-1", "job-1"],), {}, "name a request twice among 2"),
    ("remove_requests", (["job-1", "job-3"],), {}, "request 'job-3': is unknown"),
    ("change_costs", (["job-1", "job-3"], np.ones(3)), {}, "request 'job-3': is unknown"),
    ("change_request", ("job-3",), {"cost": [1.0]}, "request 'job-3': is unknown"),
    ("change_request", ("job-1",), {"cost": [1.0, 2.0], "upper": -1.0}, "bounds of 'job-1'"),
    ("change_request", ("job-1",), {"cost": [1.0]}, "cost of 'job-1': has shape"),
    ("change_uses", (["job-1", "job-3"], {"a100": 1.0}), {}, "request 'job-3': is unknown"),
    ("change_uses", (["job-1", "job-1"], {"a100": 1.0}), {}, "name a request twice among 2"),
    ("change_uses", (["job-1"], {"b300": 1.0}), {}, "resource 'b300' is unknown"),
    ("change_uses", (["job-1", "job-2"], {"a100": [1.0]}), {}, "uses of 2 requests, 'a100': has shape"),
    ("change_costs", (["job-1", "job-2"], [np.ones(2)]), {}, "costs: has 1 entries, not 2 arrays"),
    ("change_costs", (["job-1"], np.array([1.0, INF])), {}, "costs: entry 1 is inf"),
    ("remove_request", ("job-3",), {}, "request 'job-3': is unknown"),
    ("set_capacity", ("a100", NAN), {}, "capacity of 'a100'"),
    ("set_capacity", ("h100", 1.0, 2.0), {}, "capacity of 'h100': lower 2.0 and upper 1.0"),
    ("remove_capacity", ("h100",), {}, "resource 'h100': is unknown"),
    ("add_constraint", ("together", {}), {}, "constraint 'together': is there already"),
    ("add_constraint", ("c", {("job-1", 2): 1.0}), {}, "'job-1' has no variable 2"),
    ("add_constraint", ("c", {("job-3", 0): 1.0}), {}, "request 'job-3': is unknown"),
    ("add_constraint", ("c", {("job-1", 0): NAN}), {}, "coefficient of"),
    ("change_constraint", ("c", 0.0, 1.0), {}, "constraint 'c': is unknown"),
    ("remove_constraint", ("c",), {}, "constraint 'c': is unknown"),
    # Of another type or size
    ("set_capacity", ("a100", "8"), {}, "capacity of 'a100', upper: is of type str"),
    ("set_capacity", ("a100", None), {}, "capacity of 'a100', upper: is of type NoneType"),
    ("set_capacity", ("a100", [8.0]), {}, r"capacity of 'a100', upper: has shape \(1,\)"),
    ("set_capacity", ("a100", -1e18), {}, "capacity of 'a100': lower -inf and upper -1e\\+18 hold no number"),
    ("add_request", ("new", ["1"]), {}, "cost of 'new': is of type list, with entries that are no numbers"),
    ("add_request", ("new", [1.0, [2.0]]), {}, "cost of 'new': is no array of numbers"),
    ("add_request", ("new", [1e160]), {}, "cost of 'new': entry 0 is 1e\\+160"),
    ("add_request", ("new", [1.0], [1.0]), {}, "uses of 'new': is of type list"),
    ("add_request", ("new", [1.0], {"a100": 1e160}), {}, "uses of 'new', 'a100': has coefficients"),
    ("add_request", ("new", [1.0], {"a100": "1"}), {}, "uses of 'new', 'a100': is of type str"),
    ("add_request", ("new", [1.0], {}, Row(1.0)), {}, "rows of 'new': is of type Row; a list of Row"),
    ("add_request", ("new", [1.0], {}, [(1.0, 0.0, 1.0)]), {}, "row 0 of 'new': is of type tuple; a Row"),
    ("add_request", ("new", [1.0], {}, [Row(1.0, upper="1")]), {}, "row 0 of 'new': a side: is of type str"),
    ("add_request", ("new", [1.0]), {"upper": "1"}, "upper of 'new': is of type str"),
    ("add_constraint", ("c", [(("job-1", 0), 1.0)]), {}, "terms of constraint 'c': is of type list"),
    ("add_constraint", ("c", {("job-1", 0): "1"}), {}, "coefficient of .*: is of type str"),
    ("add_constraint", ("c", {("job-1", 0.5): 1.0}), {}, "'job-1' has no variable 0.5"),
    ("solve", ("1e-4",), {}, "tolerance: is of type str"),
    ("solve", (), {"threads": 1.5}, "threads: is 1.5"),
    ("solve", (), {"time_limit_s": NAN}, "time_limit_s: is nan"),
    ("solve", (), {"shim": "largest"}, "shim: is of type str; a function"),
    # No names, or no lists
    ("set_capacity", (["a100"], 8.0), {}, "resource: is of type list, which cannot be a key"),
    ("remove_capacity", (["a100"],), {}, "resource: is of type list, which cannot be a key"),
    ("add_request", ({"new"}, [1.0]), {}, "request: is of type set, which cannot be a key"),
    ("add_request", ("new", [1.0], {"a100": ([[0], [0, 1]], 1.0)}), {}, "'a100', indices: is no array of numbers"),
    (
        "add_request",
        ("new", [1.0], {}, [Row(1.0, [[0.0], [0.0, 1.0]])]),
        {},
        "row 0 of 'new': a side: is no array",
    ),
    ("add_request", ("new", [1.0], []), {}, "uses of 'new': is of type list"),
    ("add_requests", (["new", ["other"]], [1, 1], [1.0, 1.0]), {}, "ids: entry 1: is of type list"),
    ("add_requests", ({"new"}, [1], [1.0]), {}, "ids: is of type set; a list of ids"),
    ("add_requests", ("new", [1, 1, 1], np.ones(3)), {}, "ids: is of type str; a list of ids"),
    ("add_requests", (["new"], None, [1.0]), {}, "sizes: is of type NoneType"),
    ("change_costs", ({"job-1"}, np.ones(2)), {}, "ids: is of type set; a list of ids"),
    ("change_costs", (["job-1", "job-1"], np.ones(4)), {}, "name a request twice among 2"),
    ("change_costs", (["job-1"], 1.0), {}, "costs: is of type float; a list of arrays"),
    ("change_costs", (["job-1"], [[[1.0], [1.0, 2.0]]]), {}, "cost of 'job-1': is no array of numbers"),
    ("change_uses", ({"job-1"}, {"a100": 1.0}), {}, "ids: is of type set; a list of ids"),
    ("remove_requests", (None,), {}, "ids: is of type NoneType; a list of ids"),
    ("add_constraint", (["c"], {}), {}, "constraint: is of type list, which cannot be a key"),
    ("add_constraint", ("c", {"job-1": 1.0}), {}, "constraint 'c': term 'job-1' is not of"),
]


@pytest.mark.parametrize(("method", "arguments", "named", "message"), REFUSED)
def test_a_refused_change_says_why_and_leaves_the_program_as_it_was(
    method: str, arguments: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    program = two_jobs()
    with pytest.raises(ValueError, match=message):
        getattr(program, method)(*arguments, **named)
    assert same(program.linear_program(), two_jobs().linear_program())


@pytest.mark.parametrize("far", [1e9, 1e12, 1e18, 1e20, 1e300, INF])
def test_sides_and_bounds_however_far_leave_a_program_that_is_solved(far: float) -> None:
    program = ContinualProgram(maximise=True)
    program.set_capacity("a100", far)
    program.add_request("job-1", [1.0, 1.9], {"a100": [1, 2]}, [Row(1.0, upper=1.0, lower=-far)])
    program.add_request("job-2", [2.0, 2.5], {"a100": [1, 4]}, upper=1.0, lower=[0.0, -far])
    program.add_request("job-3", [-1.0], upper=far)
    solution = program.solve(tolerance=1e-6, time_limit_s=60)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(6.4, rel=1e-5)
    assert solution.bound == pytest.approx(6.4, rel=1e-5)


def test_what_is_printed_is_in_the_programs_own_terms() -> None:
    program = two_jobs()
    assert repr(program) == "ContinualProgram(requests=2, variables=4, resources=1, constraints=1, maximise=True)"
    assert repr(program.solve()).startswith("Solution(optimal, objective=")


def test_a_program_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="program: is of type NoneType; a LinearProgram is accepted"):
        ContinualProgram.of(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lower": np.full(4, 2e18), "upper": np.full(4, 3e18)}, "bounds of the program: lower inf and upper inf"),
        (
            {"row_lower": np.full(4, 2e18), "row_upper": np.full(4, 3e18)},
            r"rows: lower 2e\+18 and upper 3e\+18 of",
        ),
        ({"cost": np.full(4, 1e160)}, r"cost: entry 0 is 1e\+160"),
        ({"matrix": 1e160 * two_jobs().linear_program().matrix}, r"matrix: entry 0 is 1e\+160"),
    ],
)
def test_a_program_of_a_plain_lp_takes_what_requests_may_have(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContinualProgram.of(replace(two_jobs().linear_program(), **changed))


def test_whole_numbers_of_any_length_are_numbers() -> None:
    program = two_jobs()
    program.set_capacity("bytes", 10**20)
    with pytest.raises(ValueError, match="capacity of 'bytes', upper: has a whole number that is too large"):
        program.set_capacity("bytes", 10**400)


def test_a_program_of_a_plain_lp_is_that_lp() -> None:
    lp = two_jobs().linear_program()
    assert same(ContinualProgram.of(lp).linear_program(), lp)


def test_room_of_requests_that_left_is_used_by_those_that_come() -> None:
    program = ContinualProgram()
    program.set_capacity("a100", 8.0)
    for i in range(200):
        program.add_request(i, np.ones(40), {"a100": np.ones(40)}, [Row(1.0, upper=1.0)])
    storage = program._storage
    before = (storage.columns.top, storage.rows.top, storage.entries.top)
    for i in range(1000):
        program.remove_request(i)
        program.add_request(200 + i, np.ones(40), {"a100": np.ones(40)}, [Row(1.0, upper=1.0)])
    assert (storage.columns.top, storage.rows.top, storage.entries.top) == before


def test_a_program_kept_for_months_does_not_grow_by_requests_that_left() -> None:
    program = ContinualProgram()
    program.set_capacity("a100", 8.0)

    def rounds(first: int, last: int) -> int:
        for i in range(first, last):
            program.add_request(f"job {i:05}", np.ones(3), {"a100": np.ones(3)}, [Row(1.0, upper=1.0)])
            if i >= 10:
                program.remove_request(f"job {i - 10:05}")
        return len(pickle.dumps(program))

    early = rounds(0, 200)
    assert rounds(200, 3000) <= 2 * early
    program.remove_capacity("a100")
    assert program.linear_program().matrix.shape[0] == len(program.requests)


def test_a_program_that_shrank_gives_its_room_back() -> None:
    program, kept = ContinualProgram(), ContinualProgram()
    for made, first in ((program, 0), (kept, 2900)):
        made.set_capacity("a100", 8.0)
        for i in range(first, 3000):
            made.add_request(i, np.full(i % 7, 1.0), {"a100": np.ones(i % 7)}, [Row(1.0, upper=1.0)])
    for i in range(2900):
        program.remove_request(i)
    program._compact()
    assert program._storage.columns.top == program._storage.columns.live == len(kept)
    assert same(program.linear_program(), kept.linear_program())
