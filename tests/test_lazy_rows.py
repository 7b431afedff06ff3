"""A plan's rows are there for every job, and cost something only for the job that is asked about."""

import numpy as np
import pytest
from coadapt.scheduler.configuration import ConfigurationSet
from coadapt.scheduler.explain import explain
from coadapt.scheduler.lazy_rows import LazyRows
from coadapt.scheduler.round import Plan, Round
from rounds import cluster, job


class Asked:
    """Rows that note which of them were computed."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, position: int) -> np.ndarray:
        self.rows.append(position)
        return np.full(3, float(position))


def test_only_the_row_that_is_read_is_computed() -> None:
    asked = Asked()
    rows = LazyRows([f"j{i}" for i in range(100_000)], asked)
    assert len(rows) == 100_000
    assert "j7" in rows
    assert "gone" not in rows
    assert rows.get("gone") is None
    assert not asked.rows
    np.testing.assert_array_equal(rows["j7"], [7.0, 7.0, 7.0])
    np.testing.assert_array_equal(rows.get("j99999"), [99999.0] * 3)
    assert asked.rows == [7, 99999]


def test_it_reads_like_the_mapping_it_stands_for() -> None:
    rows = LazyRows(["b", "a"], Asked())
    assert list(rows) == ["b", "a"]
    np.testing.assert_array_equal(np.stack(list(rows.values())), [[0.0] * 3, [1.0] * 3])
    with pytest.raises(KeyError, match="gone"):
        rows["gone"]


def test_explaining_a_job_computes_nothing_of_the_others() -> None:
    seen: list[int] = []

    class Counted(Round):
        def goodput(self, configurations: ConfigurationSet) -> np.ndarray:
            seen.append(len(self.jobs))
            return super().goodput(configurations)

    where, jobs = cluster("2x a:4"), [job(f"j{i}") for i in range(5)]
    found = ConfigurationSet.for_jobs(where, [one.spec for one in jobs])
    asked = Asked()
    rows = LazyRows([one.id for one in jobs], lambda i: np.resize(asked(i), len(found)))
    plan = Plan({}, rows=rows, gains=rows, configurations=found)
    explanation = explain("j3", Counted(0.0, 60.0, where, jobs), plan)
    assert {option.value for option in explanation.options} == {3.0}
    assert all(option.goodput > 0 for option in explanation.options)
    assert set(asked.rows) == {3}
    assert seen == [1]
