"""What a study sees of its groups: how long epochs take, how much memory, and which GPUs are idle."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.tuning.live.seen import idle_gpus, others_wait, seen
from coadapt.tuning.live.store import Known
from coadapt.tuning.state import Group, Run, StudyState
from coadapt.tuning.study_file import from_values

STUDY = from_values(
    {
        "name": "digits",
        "job": "job.yaml",
        "space": {"lr": {"log": [0.001, 1.0]}},
        "metric": "accuracy",
        "mode": "max",
        "trials": 40,
        "epochs": 9,
    }
)


def state_of(*sizes: int) -> StudyState:
    """Return a study with groups of so many trials at an eighth of the width."""
    state, first = StudyState(), 0
    for number, size in enumerate(sizes):
        runs = list(range(first, first + size))
        state.groups[f"digits-{number}"] = Group(runs, 8, 9, first_runs=runs)
        for run in runs:
            state.runs[run] = Run(run, 8, 9, group=f"digits-{number}")
            state.trials.append({"lr": 0.1})
        first += size
    return state


def look(state: StudyState, known: Known, **more: Any) -> Any:
    known.jobs = {group: f"{group}-1" for group in state.groups}
    row = {"phase": "running", "reason": "", "metrics": {}, "measured_at": {}}
    return seen(STUDY, state, known, dict.fromkeys(known.jobs.values(), row), {"t4": 1}, 5.0, **more)


def test_the_most_trials_of_a_gpu_follow_from_two_sizes_that_were_measured() -> None:
    known = Known(memory={"digits-0": {4: (2.0, 16.0)}, "digits-1": {16: (5.0, 16.0)}})
    (memory,) = look(state_of(4, 16), known).memory.values()
    assert (memory.one_gib, memory.two_gib) == (1.25, 1.5)
    assert memory.most == 56, "1 GiB and a quarter for each of 56 trials are 15 of 15.2 GiB"


def test_one_size_that_was_measured_is_taken_for_more_than_it_is() -> None:
    (memory,) = look(state_of(16), Known(memory={"digits-0": {16: (5.0, 16.0)}})).memory.values()
    assert memory.most == 48


def test_emulated_gpus_have_room_for_all_trials_and_real_ones_for_few_until_they_are_measured() -> None:
    assert look(state_of(4), Known(), emulated=True).unmeasured >= 1000
    assert look(state_of(4), Known()).unmeasured == 16


def test_the_time_of_an_epoch_is_known_by_the_number_of_trials_once_there_are_two_numbers() -> None:
    epochs = {"digits-0": [(1, 10.0, 4), (2, 12.0, 4)], "digits-1": [(1, 10.0, 16), (2, 15.0, 16)]}
    (time,) = look(state_of(4, 16), Known(epochs=epochs)).times.values()
    assert (time.of(4), time.of(16)) == (pytest.approx(2.0), pytest.approx(5.0))
    assert look(state_of(4), Known(epochs={"digits-0": epochs["digits-0"]})).times == {}


def test_idle_gpus_are_those_of_open_nodes_of_the_pool_and_of_types_that_the_job_may_use() -> None:
    nodes = [
        {"gpu_type": "t4", "pool": "", "closed": "", "free_gpus": 2},
        {"gpu_type": "t4", "pool": "lab", "closed": "", "free_gpus": 4},
        {"gpu_type": "t4", "pool": "", "closed": "it is drained", "free_gpus": 8},
        {"gpu_type": "a100", "pool": "", "closed": "", "free_gpus": 1},
    ]
    assert idle_gpus(nodes, None, None) == {"t4": 2, "a100": 1}
    assert idle_gpus(nodes, "lab", ["t4"]) == {"t4": 4}


@pytest.mark.parametrize(
    ("id", "wait_reason", "waits"),
    [
        ("bob-1", "no_room", True),
        ("bob-1", "outbid", True),
        ("bob-1", "held", False),  # until its user releases it
        ("bob-1", "too_large", False),  # no GPU that the study gives up would help it
        ("bob-1", "measuring", False),
        ("digits-0-1", "no_room", False),  # the study's own
    ],
)
def test_others_wait_where_their_jobs_lack_gpus(id: str, wait_reason: str, waits: bool) -> None:
    assert others_wait([{"id": id, "wait_reason": wait_reason}], ["digits-0-1"]) is waits
