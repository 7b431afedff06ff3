"""The goodput matrix holds the best batch of every pair, exactly, and 0 where a job cannot run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coadapt.estimators.bootstrap import with_bootstrap
from coadapt.estimators.goodput import BatchLimits, ConfigurationArrays, JobModel, best_batch, goodput_matrix
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams, step_time_s
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPES = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 8), (2, 5), (2, 16), (4, 32), (9, 72)]
TYPES = ("a", "b", "c")
CONFIGURATIONS = ConfigurationArrays(
    TYPES,
    np.full(3, 8),
    np.repeat(np.arange(3), len(SHAPES)),
    np.tile([n for n, _ in SHAPES], 3),
    np.tile([r for _, r in SHAPES], 3),
)

params = st.builds(
    ThroughputParams,
    alpha_c=st.floats(1e-4, 10), beta_c=st.floats(1e-6, 1), kappa=st.floats(1, 8), delta_c=st.floats(0, 1),
    alpha_r=st.sampled_from([0.0]) | st.floats(1e-4, 10), rho_r=st.floats(0, 1),
    alpha_n=st.sampled_from([0.0]) | st.floats(1e-4, 10), rho_n=st.floats(-0.5, 1), delta_n=st.floats(-0.5, 1),
    eta_n=st.floats(-0.5, 1), omega_n=st.floats(-1, 1), gamma=st.floats(1, 10),
    ragged_c=st.sampled_from([0.0]) | st.floats(0.01, 1),
)  # fmt: skip
models = st.builds(ThroughputModel, params, st.integers(1, 200), st.integers(1, 16))


@st.composite
def batch_limits(draw: st.DrawFn) -> BatchLimits:
    unit, per_step = draw(st.integers(1, 300)), draw(st.integers(1, 4))
    first = unit * per_step
    return BatchLimits(
        first,
        first * draw(st.integers(1, 20)) + draw(st.integers(0, 50)),
        draw(st.integers(1, 8)),
        draw(st.booleans()),
        draw(st.integers(0, 5)) == 0,
        draw(st.sampled_from([None, unit])),
        draw(st.booleans()),
    )


jobs = st.builds(
    JobModel,
    st.dictionaries(st.sampled_from(TYPES), models, max_size=3),
    st.none() | st.sampled_from([0.0, 1e9]) | st.floats(1e-3, 1e6),
    batch_limits(),
    st.dictionaries(st.sampled_from(TYPES), st.integers(1, 3), max_size=3),
)


def brute_force(job: JobModel, gpu_type: str, nodes: int, k: int) -> float:
    """Return the goodput of the best of all whole local batch sizes and passes that the rules allow."""
    usable = {t: m for t, m in job.throughput.items() if t in job.gpus_per_replica}
    model = with_bootstrap(usable)[gpu_type]
    limits, most, phi = job.limits, model.max_local_bsz, job.noise_scale or 0.0
    first, last, least = limits.initial_batch_size, limits.max_batch_size, limits.min_local_bsz
    if limits.unit is not None:
        return best_of_whole_batches(job, model, min(nodes, k), k)
    fewest = -(-first // (k * most)) - 1
    if least > most or least * k > last or (fewest and not limits.accumulation):
        return 0.0
    best = 0.0
    m = np.arange(least, most + 1)
    for s in range(last // k + 2 if limits.accumulation else 1):
        batch = k * m * (s + 1)
        allowed = (batch >= first) & (batch <= last)
        if s > 0 and not (k == 1 and s == 1):
            allowed &= batch > k * most * s
        if k == 1 and s == 0:
            allowed &= batch <= first
        if limits.adapts and allowed.any():
            step = step_time_s(model.params, min(nodes, k), k, m[allowed], s)
            value = batch[allowed] / step * (phi + first) / (phi + batch[allowed])
            best = max(best, float(value.max()))
    if best == 0.0 and least * k <= first:
        local = -(-first // (k * (fewest + 1)))
        best = float(first / step_time_s(model.params, min(nodes, k), k, local, fewest))
    return best


def best_of_whole_batches(job: JobModel, model: ThroughputModel, nodes: int, k: int) -> float:
    """Return the same for a loop with its own batches: each is split over all replicas, and some make a step."""
    limits, phi, unit = job.limits, job.noise_scale or 0.0, job.limits.unit
    assert unit is not None
    split = -(-unit // (k * model.max_local_bsz))
    local = -(-unit // (k * split))
    least = unit // (k * split)  # samples of the smallest part
    if least < limits.min_local_bsz or (split > 1 and (limits.undivided or not limits.accumulation)):
        return 0.0
    first = limits.initial_batch_size
    may_merge = limits.adapts and limits.accumulation
    sizes = first * np.arange(1, limits.max_batch_size // first + 1 if may_merge else 2)
    step = step_time_s(model.params, nodes, k, local, sizes * split / unit - 1)
    return float((sizes / step * (phi + first) / (phi + sizes)).max())


@settings(max_examples=150)
@given(jobs)
def test_every_entry_is_the_best_of_all_batches(job: JobModel) -> None:
    matrix = goodput_matrix([job], CONFIGURATIONS)[0]
    assert np.all(np.isfinite(matrix))
    assert np.all(matrix >= 0)
    for value, t, n, gpus in zip(
        matrix, CONFIGURATIONS.type_index, CONFIGURATIONS.nodes, CONFIGURATIONS.gpus, strict=True
    ):
        gpu_type = TYPES[t]
        per_replica = job.gpus_per_replica.get(gpu_type)
        if gpu_type not in job.throughput or per_replica is None or gpus % per_replica:
            assert value == 0.0
        else:
            expected = brute_force(job, gpu_type, int(n), int(gpus) // per_replica)
            assert value == pytest.approx(expected, rel=1e-9), (gpu_type, n, gpus)


@settings(max_examples=100)
@given(jobs)
def test_best_batch_is_what_the_matrix_was_computed_with(job: JobModel) -> None:
    matrix = goodput_matrix([job], CONFIGURATIONS)[0]
    limits = job.limits
    for value, t, n, gpus in zip(
        matrix, CONFIGURATIONS.type_index, CONFIGURATIONS.nodes, CONFIGURATIONS.gpus, strict=True
    ):
        per_replica = job.gpus_per_replica.get(TYPES[t], 0)
        if per_replica == 0 or gpus % per_replica:
            continue
        k = int(gpus) // per_replica
        choice = best_batch(job, TYPES[t], int(n), k)
        if choice is None:
            assert value == 0.0
            continue
        assert choice.goodput == value
        assert choice.goodput == pytest.approx(choice.throughput * choice.efficiency)
        assert limits.initial_batch_size <= choice.batch_size <= limits.max_batch_size
        room = k * choice.local_bsz * (choice.accumulation + 1)
        assert choice.batch_size <= room < choice.batch_size + k * (choice.accumulation + 1)
        assert choice.local_bsz <= with_bootstrap(job.throughput)[TYPES[t]].max_local_bsz
        own = 0 if limits.unit is None else limits.initial_batch_size // limits.unit - 1
        assert limits.accumulation or choice.accumulation == own  # passes beyond the first that the script makes
        if limits.fixed:
            assert choice.batch_size == limits.initial_batch_size
            assert choice.efficiency == 1.0


@settings(max_examples=25)
@given(st.lists(st.none() | jobs, min_size=1, max_size=5))
def test_order_of_jobs_and_configurations_does_not_matter(rows: list[JobModel | None]) -> None:
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    columns = np.random.default_rng(7).permutation(len(CONFIGURATIONS))
    shuffled = replace(
        CONFIGURATIONS,
        type_index=CONFIGURATIONS.type_index[columns],
        nodes=CONFIGURATIONS.nodes[columns],
        gpus=CONFIGURATIONS.gpus[columns],
    )
    expected = goodput_matrix(rows, CONFIGURATIONS)[np.ix_(order, columns)]
    np.testing.assert_array_equal(goodput_matrix([rows[i] for i in order], shuffled), expected)


MODEL = ThroughputModel(ThroughputParams(alpha_c=0.05, beta_c=0.002, alpha_r=0.02, alpha_n=0.05), 64, 8)


def job(limits: BatchLimits, phi: float | None = 1000.0, per_replica: int = 1) -> JobModel:
    return JobModel({"a": MODEL}, phi, limits, {"a": per_replica})


def test_a_job_without_a_model_gets_zeros() -> None:
    assert goodput_matrix([None], CONFIGURATIONS).tolist() == [[0.0] * len(CONFIGURATIONS)]
    assert goodput_matrix([], CONFIGURATIONS).shape == (0, len(CONFIGURATIONS))


def test_an_unknown_noise_scale_keeps_the_initial_batch() -> None:
    choice = best_batch(job(BatchLimits(64, 4096), phi=None), "a", 1, 4)
    assert choice is not None
    assert choice.batch_size == 64


def test_a_fixed_batch_is_split_unevenly_where_it_must_be() -> None:
    choice = best_batch(job(BatchLimits(100, 100, fixed=True)), "a", 1, 3)
    assert choice is not None
    assert (choice.local_bsz, choice.accumulation, choice.batch_size) == (34, 0, 100)


def test_a_fixed_batch_beyond_memory_takes_passes_or_is_refused() -> None:
    choice = best_batch(job(BatchLimits(300, 300, fixed=True)), "a", 1, 2)
    assert choice is not None
    assert (choice.local_bsz, choice.accumulation) == (50, 2)
    assert best_batch(job(BatchLimits(300, 300, accumulation=False, fixed=True)), "a", 1, 2) is None


def test_one_replica_beyond_the_initial_batch_takes_two_passes() -> None:
    choice = best_batch(job(BatchLimits(8, 4096), phi=1e6), "a", 1, 1)
    assert choice is not None
    assert choice.batch_size > 8
    assert choice.accumulation >= 1


UNIT = BatchLimits(64, 512, unit=32)  # a script that makes a step of two batches


@pytest.mark.parametrize(
    ("replicas", "limits", "choice"),
    [
        (1, UNIT, (32, 1, 64)),  # nothing to wait for that merging would save
        (4, UNIT, (8, 11, 384)),
        (32, UNIT, (1, 15, 512)),
        (33, UNIT, None),  # a replica would have no sample of a batch
        (4, replace(UNIT, accumulation=False), (8, 1, 64)),  # the script's own two batches to a step
        (4, replace(UNIT, fixed=True), (8, 1, 64)),
        (4, replace(UNIT, undivided=True), (8, 11, 384)),
        (3, replace(UNIT, min_local_bsz=11), None),  # 11, 11 and 10 samples
        (2, replace(UNIT, min_local_bsz=11), (16, 7, 256)),
        (1, replace(UNIT, min_local_bsz=32), (32, 1, 64)),
        (2, replace(UNIT, min_local_bsz=32), None),  # a loss over the whole batch gains nothing by a replica
    ],
)
def test_a_loop_with_its_own_batches_has_them_split_and_merged(
    replicas: int, limits: BatchLimits, choice: tuple[int, int, int] | None
) -> None:
    found = best_batch(job(limits, phi=1e4), "a", 1, replicas)
    assert choice == (None if found is None else (found.local_bsz, found.accumulation, found.batch_size))


@pytest.mark.parametrize(("undivided", "passes"), [(False, 4), (True, None)])
def test_a_batch_beyond_memory_takes_passes_unless_it_cannot_be_divided(
    undivided: bool, passes: int | None
) -> None:
    found = best_batch(job(BatchLimits(256, 256, unit=256, undivided=undivided)), "a", 1, 1)
    assert (found and found.accumulation + 1) == passes


def test_a_pipeline_job_scales_in_whole_replicas() -> None:
    row = goodput_matrix([job(BatchLimits(8, 512), per_replica=4)], CONFIGURATIONS)[0]
    runs = {int(g) for g, t, v in zip(CONFIGURATIONS.gpus, CONFIGURATIONS.type_index, row, strict=True) if v > 0}
    assert runs == {4, 8, 16, 32, 72}


def test_more_replicas_than_the_largest_batch_has_samples_is_infeasible() -> None:
    assert best_batch(job(BatchLimits(8, 16, min_local_bsz=4)), "a", 1, 8) is None


@pytest.mark.parametrize("phi", [-1.0, float("nan"), float("inf")])
def test_a_noise_scale_that_is_no_number_is_refused(phi: float) -> None:
    with pytest.raises(ValueError, match="noise_scale"):
        job(BatchLimits(8, 16), phi=phi)


def test_impossible_limits_and_configurations_are_refused() -> None:
    with pytest.raises(ValueError, match="max_batch_size: 8 is less"):
        BatchLimits(16, 8)
    with pytest.raises(ValueError, match="unit: 12 must divide initial_batch_size 16"):
        BatchLimits(16, 16, unit=12)
    with pytest.raises(ValueError, match="gpus_per_replica"):
        job(BatchLimits(8, 16), per_replica=0)
    with pytest.raises(ValueError, match="type_index"):
        replace(CONFIGURATIONS, type_index=CONFIGURATIONS.type_index + 1)
    with pytest.raises(ValueError, match="gpus at least nodes"):
        replace(CONFIGURATIONS, gpus=CONFIGURATIONS.nodes - 1)
