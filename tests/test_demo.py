"""The demo does not claim what did not happen: each promise is read from the timeline alone."""

from coadapt.benchmarks.demo import ARRIVALS, contended, promises, reached


def interval(
    job: str, start: float, end: float | None, gpu_type: str, gpus: int, batch: int = 32, lr: float = 0.1
) -> dict:
    fields = {"job_id": job, "phase": "running", "start_s": start, "end_s": end, "gpu_type": gpu_type}
    return fields | {"gpus": gpus, "batch_size": batch, "lr": lr}


def seen(timeline: list) -> dict[str, bool]:
    return {promise.what: promise.seen is not None for promise in promises(timeline, 0.0)}


def test_nothing_is_seen_in_a_job_that_never_changes() -> None:
    assert not any(seen([interval("a", 0, 100, "t4", 2)]).values())


def test_each_phenomenon_is_seen_where_it_is() -> None:
    grown = [interval("a", 0, 10, "t4", 1), interval("a", 10, 20, "t4", 2, 64, 0.2)]
    assert seen(grown)["scale-up"]
    assert seen(grown)["batch size and learning rate follow"]
    assert not seen(grown)["migration between GPU types"]
    assert seen([interval("a", 0, 10, "t4", 1), interval("a", 10, 20, "a100", 1)])["migration between GPU types"]
    assert seen([interval("a", 0, 10, "t4", 1) | {"phase": "profiling"}])["profiling"]


def test_a_shrink_counts_only_when_another_job_took_the_gpus() -> None:
    shrunk = [interval("a", 0, 10, "t4", 4), interval("a", 10, 20, "t4", 2)]
    assert not seen(shrunk)["scale-down under contention"]
    assert not contended(shrunk[1], [*shrunk, interval("b", 12, 20, "a100", 2)])
    assert seen([*shrunk, interval("b", 12, 20, "t4", 2)])["scale-down under contention"]


def test_a_batch_size_without_its_learning_rate_is_no_adaptation() -> None:
    same_lr = [interval("a", 0, 10, "t4", 1), interval("a", 10, 20, "t4", 1, 64)]
    assert not seen(same_lr)["batch size and learning rate follow"]


def test_a_job_counts_only_at_its_target() -> None:
    spec = next(arrival for arrival in ARRIVALS if arrival.example == "image_classifier").spec
    assert reached(spec, {"phase": "succeeded", "metrics": {"accuracy": 0.99}})
    assert not reached(spec, {"phase": "succeeded", "metrics": {"accuracy": 0.5}})
    assert not reached(spec, {"phase": "succeeded", "metrics": {}})
    assert not reached(spec, {"phase": "failed", "metrics": {"accuracy": 0.99}})


def test_six_jobs_of_three_kinds_arrive_in_order() -> None:
    assert len(ARRIVALS) >= 6
    assert len({arrival.example for arrival in ARRIVALS}) >= 3
    assert [arrival.after_s for arrival in ARRIVALS] == sorted(arrival.after_s for arrival in ARRIVALS)
