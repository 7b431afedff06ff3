"""Each process of a command is told who it is, as by torchrun, or how many torchrun is to start."""

from __future__ import annotations

from coadapt.core.doors import Processes
from coadapt.executor.programs.environment import (
    RESTARTS,
    common_environment,
    rank_environment,
    with_output_dir,
)
from coadapt.executor.protocol.command_events import Begin
from coadapt.executor.protocol.messages import STATUS_FILE

SECOND = Begin(3, first_rank=4, world_size=6, node_rank=1, nodes=2, master_host="10.0.0.1", master_port=29_500)


def test_one_process_per_gpu_has_torchrun_s_own_variables() -> None:
    told = rank_environment(SECOND, 1, 2, Processes.GPU, 2)
    assert (told["RANK"], told["WORLD_SIZE"]) == ("5", "6")
    assert (told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == ("1", "2")
    assert (told["GROUP_RANK"], told["MASTER_ADDR"], told["MASTER_PORT"]) == ("1", "10.0.0.1", "29500")


def test_one_process_per_node_is_told_how_many_torchrun_starts_and_where_all_meet() -> None:
    told = rank_environment(SECOND, 0, 1, Processes.NODE, 8)
    assert (told["PET_NNODES"], told["PET_NODE_RANK"], told["PET_NPROC_PER_NODE"]) == ("2", "1", "8")
    assert (told["PET_MASTER_ADDR"], told["PET_MASTER_PORT"]) == ("10.0.0.1", "29500")
    assert "RANK" not in told, "a program of its own would take itself for a process of a group"


def test_a_program_knows_how_often_it_was_started_before_and_where_it_may_say_how_far_it_is() -> None:
    assert common_environment(SECOND, 0, "/t/s.jsonl", {"X": "1"}) == {
        RESTARTS: "2",
        STATUS_FILE: "/t/s.jsonl",
        "X": "1",
    }
    assert common_environment(SECOND, 0, "", {}) == {RESTARTS: "2"}
    assert common_environment(SECOND, 4, "", {}) == {RESTARTS: "6"}, "an executor before this one started it, too"


def test_a_word_may_name_the_output_folder_as_a_shell_would() -> None:
    named = ("--out=$COADAPT_OUTPUT_DIR", "${COADAPT_OUTPUT_DIR}/log", "$COADAPT_OUTPUT_DIRECTORY", "$HOME")
    assert [with_output_dir(word, r"/o/a\1") for word in named] == [
        r"--out=/o/a\1",
        r"/o/a\1/log",
        "$COADAPT_OUTPUT_DIRECTORY",
        "$HOME",
    ]
