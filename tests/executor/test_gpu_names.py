"""A training process sees the GPUs of its slot and no others, also where the node's agent sees a part."""

import os
import subprocess
import sys

import pytest
from coadapt.core.slot import Slot
from coadapt.executor.gpu_names import GpuNameError, given_by, names_on_machine, visible_gpus


@pytest.mark.parametrize(
    ("environment", "devices", "told"),
    [
        ({}, (1, 3), {"CUDA_VISIBLE_DEVICES": "1,3"}),
        ({"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, (1, 3), {"CUDA_VISIBLE_DEVICES": "5,7"}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a0, GPU-b1"}, (1,), {"CUDA_VISIBLE_DEVICES": "GPU-b1"}),
        ({"HIP_VISIBLE_DEVICES": "2,3"}, (0,), {"HIP_VISIBLE_DEVICES": "2"}),
    ],
    ids=["the whole machine", "indices", "uuids", "amd"],
)
def test_gpus_are_named_as_the_nodes_agent_names_them(
    environment: dict[str, str], devices: tuple[int, ...], told: dict[str, str]
) -> None:
    assert visible_gpus(devices, environment) == told


@pytest.mark.parametrize("listed", ["4,5", "GPU-a0", "", "NoDevFiles"])
def test_a_gpu_that_the_agent_does_not_see_is_an_error_in_one_sentence(listed: str) -> None:
    seen = len([name for name in listed.split(",") if name and name != "NoDevFiles"])
    with pytest.raises(GpuNameError) as error:
        visible_gpus((2,), {"CUDA_VISIBLE_DEVICES": listed})
    assert str(error.value) == f"devices: GPU 2 of a node whose agent sees {seen} (CUDA_VISIBLE_DEVICES={listed})"


def test_what_is_written_over_a_workers_list_later_does_not_count() -> None:
    program = (
        "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''\n"
        "from coadapt.executor.gpu_names import first_environment\n"
        "print(first_environment()['CUDA_VISIBLE_DEVICES'])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "6,7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "6,7"


@pytest.mark.parametrize(
    ("slot", "own", "told"),
    [
        (Slot("n", "l", (2, 0), "a100", cpus=6.0), {}, {"CUDA_VISIBLE_DEVICES": "2,0", "OMP_NUM_THREADS": "6"}),
        (Slot("n", "l", (1,), "a100", cpus=0.5), {}, {"CUDA_VISIBLE_DEVICES": "1", "OMP_NUM_THREADS": "1"}),
        (Slot("n", "l", (1,), "a100"), {"OMP_NUM_THREADS": "3"}, {"CUDA_VISIBLE_DEVICES": "1"}),
        (Slot("n", "l", (1,), "a100", emulated=True), {}, {}),
    ],
    ids=["gpus and threads of a slot", "one thread at least", "threads that the user set", "emulated"],
)
def test_a_process_is_given_what_its_slot_has(slot: Slot, own: dict[str, str], told: dict[str, str]) -> None:
    assert given_by(slot, own, {}) == told


def test_gpus_have_one_name_on_a_machine_and_emulated_ones_one_on_their_node() -> None:
    slot = Slot("n", "l", (0, 2), "a100")
    assert names_on_machine(slot, {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c"}) == ["GPU-a", "GPU-c"]
    assert names_on_machine(slot, {}) == ["0", "2"]
    assert names_on_machine(Slot("n", "l", (1,), "t4", emulated=True), {}) == ["n-1"]


def test_threads_that_the_node_says_stay() -> None:
    assert "OMP_NUM_THREADS" not in given_by(Slot("n", "l", (0,), "a100"), {}, {"OMP_NUM_THREADS": "2"})
