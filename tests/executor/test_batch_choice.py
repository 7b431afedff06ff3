"""A group's batch is the one of highest predicted goodput, and moves only for a gain worth it."""

from dataclasses import replace

from coadapt.core.batch_plan import BatchPlan
from coadapt.core.slot import Slot
from coadapt.estimators.goodput import BatchLimits, JobModel
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams
from coadapt.executor.batch_choice import better_batch, choose_batch, goodput, group_shape

# 50 ms plus 1 ms a sample; a link that costs 100 ms between nodes and nothing within one.
PARAMS = ThroughputParams(
    alpha_c=0.05, beta_c=0.001, kappa=1.0, delta_c=0.0, alpha_r=0.0, rho_r=0.0, alpha_n=0.1, rho_n=0.0,
    delta_n=0.0, eta_n=0.0, omega_n=0.0, gamma=1.0, ragged_c=0.0,
)  # fmt: skip


def job(noise_scale: float | None = 1000.0, fixed: bool = False, most: int = 64) -> JobModel:
    limits = BatchLimits(32, 512, fixed=fixed)
    return JobModel({"t4": ThroughputModel(PARAMS, most, 16)}, noise_scale, limits, {"t4": 1})


def slots(*nodes: str) -> list[Slot]:
    return [Slot(node, f"lease-{node}", (nodes[:i].count(node),), "t4") for i, node in enumerate(nodes)]


def test_a_group_is_as_dense_as_its_fullest_node() -> None:
    assert group_shape(slots("a", "b", "b")) == ("t4", 2, 3, 2)


def test_a_noisy_job_fills_the_memory_and_a_job_without_noise_stays_small() -> None:
    noisy = choose_batch(job(1e6), slots("a", "a"))
    assert noisy is not None
    assert (noisy.local_bsz, noisy.batch_size) == (64, None)
    assert choose_batch(job(0.0), slots("a", "a")) == BatchPlan(16, 0, None)


def test_a_fixed_batch_stays_whatever_the_noise() -> None:
    assert choose_batch(job(1e6, fixed=True), slots("a", "a", "b")) == BatchPlan(11, 0, 32)
    assert better_batch(job(1e6, fixed=True), slots("a", "a"), BatchPlan(4, 3, 32)) is None


def test_without_a_model_or_slots_nothing_is_chosen() -> None:
    assert choose_batch(None, slots("a")) is None
    assert choose_batch(job(), []) is None
    assert choose_batch(job(most=1), slots("a")) is not None  # 32 passes of one sample
    assert better_batch(None, slots("a"), BatchPlan(32)) is None


def test_a_batch_moves_only_for_more_than_a_twentieth() -> None:
    model, group = job(1000.0), slots("a", "b")
    best = choose_batch(model, group)
    assert best is not None
    near = replace(best, local_bsz=best.local_bsz - 2)
    assert 1.0 < goodput(model, group, best) / goodput(model, group, near) < 1.05
    assert better_batch(model, group, near) is None
    assert better_batch(model, group, BatchPlan(16)) == best
    assert better_batch(model, group, best) is None


def test_a_group_that_waits_for_its_input_has_the_smallest_batch_that_is_as_fast() -> None:
    group, noisy = slots("a", "a"), job(1e6)
    assert choose_batch(noisy, group, 1e6) == choose_batch(noisy, group) == BatchPlan(64)
    # Two replicas with m samples each are 2 m / (50 ms + m ms) fast: 800 samples/s from m = 34 on.
    found = choose_batch(noisy, group, 800.0)
    assert found is not None
    assert 33 <= found.local_bsz <= 35
    assert choose_batch(noisy, group, 100.0) == choose_batch(job(0.0), group) == BatchPlan(16)


def test_a_batch_moves_back_where_its_input_is_slower_than_the_gpus() -> None:
    group = slots("a", "a")
    assert better_batch(job(1000.0), group, BatchPlan(16)) is not None
    assert better_batch(job(100.0), group, BatchPlan(64), 200.0) == BatchPlan(16)
    assert better_batch(job(100.0), group, BatchPlan(16), 200.0) is None
