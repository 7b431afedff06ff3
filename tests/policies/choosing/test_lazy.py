"""What is said of every job is there for every job, and costs something only for the one that is asked about."""

import numpy as np
import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.lazy import LazyMapping
from coadapt.policies.contract.configuration import Configuration, ConfigurationSet
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.placing.demand import Demand
from coadapt.policies.placing.placer import Placer

from tests.support.rounds import cluster, job, on


class Asked:
    """Rows that note which of them were computed."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, position: int) -> np.ndarray:
        self.rows.append(position)
        return np.full(3, float(position))


def test_only_the_row_that_is_read_is_computed() -> None:
    asked = Asked()
    rows = LazyMapping([f"j{i}" for i in range(100_000)], asked)
    assert len(rows) == 100_000
    assert "j7" in rows
    assert "gone" not in rows
    assert rows.get("gone") is None
    assert not asked.rows
    np.testing.assert_array_equal(rows["j7"], [7.0, 7.0, 7.0])
    np.testing.assert_array_equal(rows.get("j99999"), [99999.0] * 3)
    assert asked.rows == [7, 99999]


def test_it_reads_like_the_mapping_it_stands_for() -> None:
    rows = LazyMapping(["b", "a"], Asked())
    assert list(rows) == ["b", "a"]
    np.testing.assert_array_equal(np.stack(list(rows.values())), [[0.0] * 3, [1.0] * 3])
    with pytest.raises(KeyError, match="gone"):
        rows["gone"]


def test_the_placer_asks_only_for_demands_of_jobs_it_places_anew() -> None:
    ids, asked = ["x", "y"], []

    def demand(position: int) -> Demand:
        asked.append(ids[position])
        return Demand(cpus_per_gpu=1.5)

    wanted = dict.fromkeys(ids, Configuration(1, 2, "b"))
    placed = Placer().place(wanted, {"x": on("b", n0=2)}, cluster("1x b:4"), demands=LazyMapping(ids, demand))
    assert placed.placements["y"].shares[0].cpus == 3.0
    assert asked == ["y"]


def test_explaining_a_job_computes_nothing_of_the_others() -> None:
    seen: list[int] = []

    class Counted(Round):
        def goodput(self, configurations: ConfigurationSet) -> np.ndarray:
            seen.append(len(self.jobs))
            return super().goodput(configurations)

    where, jobs = cluster("2x a:4"), [job(f"j{i}") for i in range(5)]
    found = ConfigurationSet.for_jobs(where, [one.spec for one in jobs])
    asked = Asked()
    rows = LazyMapping([one.id for one in jobs], lambda i: np.resize(asked(i), len(found)))
    plan = Plan({}, rows=rows, gains=rows, configurations=found)
    explanation = make_policy("sia").explain("j3", Counted(0.0, 60.0, where, jobs), plan)
    assert {option["value"] for option in explanation.facts["options"]} == {3.0}
    assert all(option["goodput"] > 0 for option in explanation.facts["options"])
    assert set(asked.rows) == {3}
    assert seen == [1]
