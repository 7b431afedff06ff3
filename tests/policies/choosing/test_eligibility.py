"""Which configurations a job may use: what its user allows, what it can run, and what it has grown into."""

import numpy as np
import pytest
from coadapt.policies.choosing.eligibility import Eligibility, eligibility
from coadapt.policies.contract.configuration import ConfigurationSet, want
from coadapt.policies.contract.round import JobView
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import cluster, job, on, spec

WHERE = cluster("2x a:8, 3x b:4, 2x c:6")


def names(found: ConfigurationSet, mask: np.ndarray) -> set[str]:
    return {name for name, is_in in zip(found.names, mask, strict=True) if is_in}


def ask(*jobs: JobView, first: int = 0, reach: float = 2.0) -> tuple[ConfigurationSet, Eligibility]:
    found = ConfigurationSet.for_jobs(WHERE, [job.spec for job in jobs])
    return found, eligibility(jobs, found, np.ones((len(jobs), len(found))), first, reach)


def test_a_job_starts_small_and_at_most_doubles() -> None:
    new = job("new", gpu_types=["b"], largest_gpus={})
    grown = job("grown", gpu_types=["b"], largest_gpus={"b": 2})
    found, may = ask(new, grown)
    assert names(found, may.usable[0]) == {"1xb", "2xb", "4xb", "8xb (2 nodes)", "12xb (3 nodes)"}
    assert names(found, may.within_growth[0]) == {"1xb"}
    assert names(found, may.within_growth[1]) == {"1xb", "2xb", "4xb"}
    np.testing.assert_array_equal(may.smallest, [1, 1])
    four = found.names.index("4xb")
    np.testing.assert_array_equal(may.growth[:, four], [4.0, 2.0])


def test_an_operator_may_let_jobs_start_larger_and_grow_faster() -> None:
    found, may = ask(
        job("new", gpu_types=["b"], largest_gpus={}),
        job("x", gpu_types=["b"], largest_gpus={"b": 1}),
        first=2,
        reach=4.0,
    )
    assert names(found, may.within_growth[0]) == {"1xb", "2xb"}
    assert names(found, may.within_growth[1]) == {"1xb", "2xb", "4xb"}


def test_replicas_held_on_one_type_count_on_every_other() -> None:
    held = job("x", gpus_per_replica={"a": 4, "b": 1}, placement=on("a", n0=8), largest_gpus={})
    found, may = ask(held)
    assert names(found, may.within_growth[0]) == {"4xa", "8xa", "16xa (2 nodes)", "1xb", "2xb", "4xb"}


def test_a_job_without_a_model_gets_the_smallest_of_each_type() -> None:
    found, may = ask(job("x", known=False, min_gpus=2, largest_gpus={"b": 8}))
    assert names(found, may.within_growth[0]) == {"2xa", "2xb", "2xc"}


def test_a_special_count_is_only_for_those_that_ask_for_it() -> None:
    rigid, any_size = job("x", adaptivity="rigid", gpus=3), job("y", max_gpus=8)
    found, may = ask(rigid, any_size)
    assert names(found, may.allowed[0]) == {"3xa", "3xb", "3xc"}
    assert not names(found, may.allowed[1]) & {"3xa", "3xb", "3xc"}


def test_what_has_no_goodput_is_not_used() -> None:
    one = job("x", gpu_types=["b"], largest_gpus={"b": 64})
    found = ConfigurationSet.for_jobs(WHERE, [one.spec])
    goodput = np.array([[0.0 if name == "1xb" else 1.0 for name in found.names]])
    may = eligibility([one], found, goodput)
    assert "1xb" in names(found, may.allowed[0])
    assert "1xb" not in names(found, may.usable[0])
    assert may.smallest[0] == 2


ASKED = st.one_of(
    st.builds(lambda gpus: {"adaptivity": "rigid", "gpus": gpus}, st.integers(1, 20)),
    st.builds(lambda each: {"gpus_per_replica": each, "max_gpus": 24}, st.integers(1, 8)),
    st.builds(lambda each: {"gpus_per_replica": {"a": each, "c": 3}, "max_gpus": 24}, st.integers(1, 8)),
    st.builds(lambda low, more: {"min_gpus": low, "max_gpus": low + more}, st.integers(1, 9), st.integers(0, 20)),
    st.just({"gpu_types": ["b"], "reservation": {"gpu_type": "b", "gpus": 3}}),
)


@given(
    asked=st.lists(st.tuples(ASKED, st.booleans(), st.integers(0, 9)), max_size=8), seed=st.integers(0, 2**32 - 1)
)
@settings(max_examples=100)
def test_what_a_job_may_use_does_not_depend_on_the_others(
    asked: list[tuple[dict[str, object], bool, int]], seed: int
) -> None:
    jobs = [
        job(f"j{i}", known=known, largest_gpus={"b": held} if held else {}, **about)
        for i, (about, known, held) in enumerate(asked)
    ]
    found = ConfigurationSet.for_jobs(WHERE, [one.spec for one in jobs])
    goodput = np.random.default_rng(seed).integers(0, 3, (len(jobs), len(found))).astype(float)
    together = eligibility(jobs, found, goodput)
    assert (together.within_growth <= together.usable).all()
    assert (together.usable <= together.allowed).all()
    for i, one in enumerate(jobs):
        alone = eligibility([one], found, goodput[[i]])
        for name in ("allowed", "usable", "within_growth", "smallest", "growth"):
            np.testing.assert_array_equal(getattr(together, name)[i], getattr(alone, name)[0], err_msg=name)
        for c, is_allowed in zip(found.items, together.allowed[i], strict=True):
            per_replica = one.spec.gpus_per_replica(c.gpu_type)
            assert not is_allowed or (per_replica is not None and c.holds_replicas(per_replica))


@given(extra=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 16), st.integers(1, 6)), max_size=4))
def test_whole_replicas_are_the_same_for_one_configuration_and_for_all(extra: list[tuple[str, int, int]]) -> None:
    found = ConfigurationSet(WHERE, extra)
    for each in range(1, 13):
        one_by_one = [c.holds_replicas(each) for c in found.items]
        np.testing.assert_array_equal(found.holds_replicas(each), one_by_one)


@pytest.mark.parametrize(
    "about", [{"min_gpus": 2}, {"max_gpus": 8}, {"gpu_types": ["b"]}, {"gpus_per_replica": {"a": 2, "b": 1}}]
)
def test_jobs_want_the_same_only_if_all_that_matters_is_the_same(about: dict[str, object]) -> None:
    assert want(spec("x", **about)) == want(spec("y", **about))
    assert want(spec("x", **about)) != want(spec("x"))
