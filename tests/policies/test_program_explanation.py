"""`explain` says why a job has what it has, in numbers and in words."""

import json
from dataclasses import replace

import pytest
from coadapt.core.job import JobSpec
from coadapt.core.training_config import Adaptivity, TrainingConfig
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.explanation import Explanation
from coadapt.policies.contract.round import Round

from tests.support.rounds import cluster, given, job, model, on


def explain(id: str, round: Round, policy: str = "sia") -> Explanation:
    made = make_policy(policy)
    return made.explain(id, round, made.plan(round))


def explained(nodes: str, jobs: list, table: dict, id: str = "x") -> Explanation:
    round = given(nodes, jobs, table)
    return explain(id, round)


def verdicts(explanation: Explanation) -> dict[str, str]:
    return {option["configuration"]: option["verdict"] for option in explanation.facts["options"]}


NAMED = TrainingConfig(adaptivity=Adaptivity.STRONG_SCALING, initial_batch_size=64)
FOUR = {"1xa": 1.0, "2xa": 2.0, "4xa": 4.0}


def test_what_stops_a_job_is_named_per_configuration() -> None:
    view = job("x", gpu_types=["a"], max_gpus=4, min_gpus=2, largest_gpus={})
    table = {"x": {"2xa": 2.0, "4xa": 4.0, "8xa": 8.0, "1xb": 9.0}}
    found = verdicts(explained("1x a:8, 1x b:1", [view, job("y", max_gpus=8)], {**table, "y": {"1xa": 1.0}}))
    assert found == {
        "1xa": "less than its min_gpus 2",
        "2xa": "this is what it has",
        "4xa": "more than twice the most it has run on so far; a job at most doubles per round",
        "8xa": "more than its max_gpus 4",
        "1xb": "the job does not run on b",
    }


def test_a_command_s_sizes_are_named_and_its_speed_is_told_in_no_samples_that_it_never_named() -> None:
    spec = JobSpec(name="x", command=["torchrun", "t.py"], sizes=[1, 4])
    view = replace(job("x", largest_gpus={}), spec=spec)
    found = explained("1x a:4", [view], {"x": FOUR})
    assert verdicts(found)["2xa"] == "not one of its sizes on a: 1, 4"
    assert "samples" not in "\n".join(found.sentences)
    told = explained("1x a:4", [replace(view, spec=spec.model_copy(update={"training": NAMED}))], {"x": FOUR})
    assert "samples/s" in told.sentences[0]


def test_prices_stop_a_job_whose_gpus_are_worth_more_to_others() -> None:
    jobs = [job("x"), *(job(f"y{i}") for i in range(3))]
    found = explained("1x a:4", jobs, {j.id: {"1xa": 1.0, "2xa": 1.2, "4xa": 1.4} for j in jobs})
    assert found.chosen == "1xa"
    assert found.facts["prices"]["a"] > 0
    assert "worth" in verdicts(found)["4xa"]
    assert "other jobs" in verdicts(found)["4xa"]
    assert [o["relative"] for o in found.facts["options"]] == [1.0, 1.2, 1.4]


def test_a_restart_that_does_not_pay_is_named() -> None:
    view = job("x", placement=on("a", n0=1), restarts=60)
    found = explained("1x a:1, 1x b:1", [view], {"x": {"1xa": 1.0, "1xb": 1.5}})
    assert found.facts["restart_factor"] == pytest.approx(0.5, abs=0.01)
    assert verdicts(found)["1xb"] == "better, but not by enough to pay for the pause of a move now"
    assert any("stays on 1xa" in line for line in found.sentences)


def test_every_gpu_type_is_told_of_and_the_same_goodput_is_not_called_better() -> None:
    found = explained("1x a:1, 1x b:1, 1x c:1", [job("x")], {"x": {"1xa": 1.0, "1xb": 1.001, "1xc": 0.25}})
    assert found.chosen == "1xb"
    assert list(found.sentences)[-4:] == [
        "No configuration of the cluster would give it a higher goodput.",
        "On other GPU types, at best:",
        "  1xa: 1.00 x; no better for it",
        "  1xc: 0.25 x; no better for it",
    ]


def test_a_larger_batch_is_told_with_what_its_samples_are_worth() -> None:
    view = job("x", model=model({"a": 100.0}, link=0.2))
    round = Round(0.0, 60.0, cluster("1x a:4"), [view])
    found = explain("x", round)
    first = found.sentences[0]
    assert first.startswith("x starts on 4xa, goodput ")
    assert first.endswith(" of one in its initial batches of 32.")
    batch = next(o["batch"] for o in found.facts["options"] if o["configuration"] == "4xa")
    assert batch is not None
    assert batch["batch_size"] > 32
    assert f"with batches of {batch['batch_size']}: " in first
    assert json.loads(json.dumps(found.to_dict()))["initial_batch_size"] == 32


def test_a_batch_that_fits_nowhere_is_named() -> None:
    found = explained("1x a:2", [job("x")], {"x": {"2xa": 1.0}})
    assert verdicts(found)["1xa"] == "no batch size within its limits fits there"


def test_a_job_with_nothing_is_told_so() -> None:
    jobs = [job("w", preemptible=False, placement=on("a", n0=1)), job("x")]
    found = explained("1x a:1", jobs, {j.id: {"1xa": 1.0} for j in jobs})
    assert found.chosen is None
    assert found.sentences[0] == "x gets nothing this round."


def test_a_program_that_keeps_its_gpus_is_told_no_more_than_that() -> None:
    plain = JobSpec(name="x", command=["make"], elastic=False)
    view = replace(job("x", placement=on("a", n0=1)), spec=plain)
    found = explained("1x a:1, 1x b:1", [view], {"x": {"1xa": 1.0, "1xb": 9.0}})
    assert found.sentences[1] == (
        "It keeps these GPUs until it ends; with restartable: true in its file it could be moved."
    )
    assert not any("A move pauses" in line or "1xb" in line for line in found.sentences)


def test_it_is_plain_json_and_lines_for_people() -> None:
    found = explained("1x a:4", [job("x")], {"x": FOUR})
    assert json.loads(json.dumps(found.to_dict()))["chosen"] == "4xa"
    assert found.sentences[0] == "x starts on 4xa, goodput 4 samples/s."
    assert "No configuration of the cluster would give it a higher goodput." in found.sentences


def test_an_unknown_job_is_named() -> None:
    round = given("1x a:4", [job("x")], {"x": FOUR})
    with pytest.raises(KeyError, match="'nope' is not in this round"):
        explain("nope", round)
