"""The processes of a sharded replica look like one to its executor."""

from coadapt.executor.processes.replica import Said, for_shard, shard_environment
from coadapt.executor.protocol.messages import (
    SHARD,
    SHARDS,
    Broken,
    Crashed,
    Finished,
    Heartbeat,
    Join,
    Joined,
    Left,
    Ready,
    Stop,
)
from coadapt.executor.protocol.worker_events import Exited, Output, Started

READY = Ready("f", 32, 10, 100, "SGD", False)


def test_what_all_processes_say_is_said_once_when_the_last_has_said_it() -> None:
    said = Said(2)
    assert said.by(1, READY) == []
    assert said.by(0, READY) == [READY]
    assert said.by(0, Joined(1, 5, "peer")) == []
    assert said.by(1, Joined(1, 5, "checkpoint")) == [Joined(1, 5, "peer")]
    assert said.by(0, Broken(1, 7)) == []
    assert said.by(1, Broken(1, 7)) == [Broken(1, 7)]
    assert said.by(1, Joined(2, 7, "peer")) == []  # of the next generation


def test_progress_and_output_are_those_of_the_first_process() -> None:
    said = Said(2)
    assert said.by(0, Started(11, "here")) == [Started(11, "here")]
    assert said.by(1, Started(12, "here")) == []
    assert said.by(1, Heartbeat(1, 3)) == []
    assert said.by(0, Heartbeat(1, 3)) == [Heartbeat(1, 3)]
    assert said.by(0, Output("loss 1\n")) == [Output("loss 1\n")]
    assert said.by(1, Output("loss 1\n")) == []


def test_an_error_of_any_process_ends_the_replica_and_its_last_output_is_shown() -> None:
    said = Said(2)
    said.by(1, Output("Traceback …\n"))
    error = Crashed("ValueError: mine", "…")
    assert said.by(1, error) == [Output("Traceback …\n"), error]
    assert said.is_lost
    assert said.by(0, Crashed("RuntimeError: what follows", "…")) == []
    assert said.by(1, Exited(1)) == []
    assert said.by(0, Exited(-9)) == [Exited(1)]


def test_a_killed_process_is_the_reason_and_not_what_the_others_meet_then() -> None:
    said = Said(2)
    assert said.by(0, Crashed("another process of this replica is gone", "", peer_lost=True)) == []
    assert said.by(0, Exited(1)) == []
    assert said.by(1, Exited(-9)) == [Exited(-9)]


def test_a_replica_that_ends_by_itself_ends_with_all_of_its_processes() -> None:
    said = Said(2)
    assert said.by(0, Finished(9)) == []
    assert said.by(0, Exited(0)) == []
    assert not said.is_lost
    assert said.by(1, Finished(9)) == [Finished(9)]
    assert said.by(1, Exited(0)) == [Exited(0)]


def test_a_process_that_ends_before_the_others_have_left_takes_them_with_it() -> None:
    said = Said(3)
    said.by(2, Left(4))
    said.by(2, Exited(0))
    assert not said.is_lost
    said.by(1, Exited(0))
    assert said.is_lost


def test_ranks_count_the_processes_of_a_replica_first() -> None:
    join = Join(3, rank=1, world_size=2, nodes=1, local_rank=1, local_world_size=2, store_host="h", store_port=1)
    told = [for_shard(join, shard, 3) for shard in range(3)]
    assert [(one.rank, one.world_size) for one in told if isinstance(one, Join)] == [(3, 6), (4, 6), (5, 6)]
    assert for_shard(Stop(), 1, 3) == Stop()


def test_before_it_joins_the_world_of_a_process_is_its_replica() -> None:
    environment = shard_environment(1, 4, 2345)
    assert (environment["RANK"], environment["WORLD_SIZE"]) == ("1", "4")
    assert (environment[SHARD], environment[SHARDS], environment["MASTER_PORT"]) == ("1", "4", "2345")
