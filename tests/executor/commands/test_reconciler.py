"""A command is started where it should be, stopped with a grace, started again, and ended, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from coadapt.core.doors import Processes
from coadapt.core.slot import Slot
from coadapt.executor.commands.effects import Effect, KillCrew, SendCrew, StartCrew, TellService
from coadapt.executor.commands.reconciler import ABORT_S, LOCATE_S, CommandReconciler, Phase, Rules
from coadapt.executor.files.output_keeper import LAST_S
from coadapt.executor.protocol.command_events import Begin, Begun, Ended, Located, Terminate
from coadapt.executor.protocol.job_events import (
    Failing,
    JobFailed,
    JobFinished,
    Killed,
    Released,
    Running,
    WorkerLost,
)
from coadapt.executor.protocol.worker_events import Exited, Gone
from coadapt.executor.reconciling.failures import POLICY, FailureBudget

from tests.support.simulated_workers import slot

USUAL = Rules()
A, B, C = slot("n1"), slot("n1", 1), slot("n2")


class Nodes:
    """Nodes that do what a reconciler asks for, at once; each of its steps can be taken apart."""

    def __init__(self, processes: Processes = Processes.GPU, rules: Rules = USUAL, max_failures: int = 3) -> None:
        self.machine = CommandReconciler(
            processes, rules, FailureBudget(max_failures), worker_id=lambda n: f"w{n}", program="train.py"
        )
        self.now, self.sequence = 0.0, 0
        self.told: list[object] = []
        self.ranks: dict[str, list[int]] = {}  # of workers whose processes run
        self.begins: list[Begin] = []
        self.terminated: list[tuple[str, float]] = []
        self.ignores_sigterm = False
        self.answers = True  # workers find their place
        self.begins_at_once = self.kills_at_once = True

    def assign(self, *slots: Slot) -> None:
        self.sequence += 1
        self.do(self.machine.assign(slots, self.sequence, self.now))

    def do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case TellService():
                    self.told.append(effect.event)
                case StartCrew() if self.answers:
                    self.event(effect.worker, Located(effect.plan.node_id, 29_500))
                case SendCrew(worker, Begin() as begin):
                    count = self.machine.crews[worker].plan.processes
                    self.begins.append(begin)
                    self.ranks[worker] = [begin.first_rank + n for n in range(count)]
                    if self.begins_at_once:
                        self.event(worker, Begun(begin.generation, tuple(range(100, 100 + count))))
                case SendCrew(worker, Terminate() as order):
                    self.terminated.append((worker, order.grace_s))
                    if not self.ignores_sigterm:
                        self.end(worker, -15)
                case KillCrew(worker) if self.kills_at_once:
                    self.ranks.pop(worker, None)
                    self.event(worker, Gone("was killed"))

    def event(self, worker: str, event: object) -> None:
        self.do(self.machine.event(worker, event, self.now))

    def end(self, worker: str, code: int, summary: str = "", *, overdue: bool = False, left: int = 0) -> None:
        """End all processes of a worker, and then the worker."""
        for rank in self.ranks.pop(worker, []):
            self.event(worker, Ended(rank, code, summary, overdue=overdue, left=left))
        self.event(worker, Exited(0))
        self.event(worker, Gone())

    def go(self, seconds: float) -> None:
        """Let time pass; what is due is done when it is due."""
        end = self.now + seconds
        while (due := self.machine.next_deadline_s) <= end:
            self.now = max(due, self.now)
            self.do(self.machine.tick(self.now))
        self.now = end

    def worker_on(self, node: str) -> str:
        (found,) = [crew.id for crew in self.machine.crews.values() if crew.plan.node_id == node]
        return found

    def of(self, kind: type) -> list:
        return [event for event in self.told if isinstance(event, kind)]


def test_one_process_per_gpu_has_torchrun_s_ranks_over_all_nodes() -> None:
    nodes = Nodes()
    nodes.assign(C, B, A)
    assert nodes.begins == [Begin(1, 0, 3, 0, 2, "n1", 29_500), Begin(1, 2, 3, 1, 2, "n1", 29_500)]
    (running,) = nodes.of(Running)
    assert (running.slots, running.pause_s, running.generation) == ((A, B, C), None, 1)


def test_one_process_per_node_sees_all_gpus_there() -> None:
    nodes = Nodes(Processes.NODE)
    nodes.assign(A, B, C)
    assert [begin.world_size for begin in nodes.begins] == [2, 2]
    assert nodes.machine.crews[nodes.worker_on("n1")].plan.place == replace(A, devices=(0, 1))


def test_a_job_is_done_when_every_process_has_ended_with_status_0() -> None:
    nodes = Nodes()
    nodes.assign(A, C)
    nodes.go(100)
    nodes.end(nodes.worker_on("n1"), 0)
    assert nodes.of(JobFinished) == []
    nodes.end(nodes.worker_on("n2"), 0)
    assert nodes.of(JobFinished) == [JobFinished()]
    assert {slot for event in nodes.of(Released) for slot in event.slots} == {A, C}


def test_a_program_that_ends_at_once_and_says_nothing_is_told_so() -> None:
    nodes = Nodes()
    nodes.assign(A)
    nodes.go(0.4)
    nodes.end(nodes.worker_on("n1"), 0)
    assert nodes.of(JobFinished) == [JobFinished(ended_early="0.4 s")]


def test_another_size_is_sigterm_a_grace_and_a_start_there_with_the_pause_measured() -> None:
    nodes = Nodes(rules=Rules(grace_s=20))
    nodes.assign(A)
    nodes.go(60)
    nodes.ignores_sigterm = True  # it saves first
    nodes.assign(A, C)
    assert nodes.terminated == [("w1", 20)]
    nodes.go(12)
    assert nodes.machine.phase is Phase.STOPPING
    nodes.end("w1", 0)
    first, second = nodes.of(Running)
    assert (second.slots, second.pause_s, second.generation) == ((A, C), 12.0, 2)
    assert (second.warm, second.recovered, second.retried) == (False, False, False)
    assert nodes.of(JobFinished) == []
    assert first.sequence == 1
    assert second.sequence == 2


def test_a_partner_on_the_same_gpu_leaves_the_program_as_it_is_which_is_told() -> None:
    nodes = Nodes()
    nodes.assign(A)
    nodes.go(60)
    nodes.assign(replace(A, share=0.5))
    first, second = nodes.of(Running)
    assert (second.sequence, second.slots, second.warm, second.pause_s) == (2, (A,), True, None)
    assert second.generation == first.generation
    assert not nodes.terminated
    nodes.go(60)
    assert len(nodes.of(Running)) == 2


def test_workers_of_the_next_size_start_while_the_program_still_saves_and_begin_when_it_is_gone() -> None:
    nodes = Nodes(rules=Rules(grace_s=20))
    nodes.assign(A)
    nodes.ignores_sigterm = True
    nodes.answers = False  # the new worker waits for its GPU
    nodes.assign(A, B)
    assert set(nodes.machine.crews) == {"w1", "w2"}
    nodes.assign(B)
    assert set(nodes.machine.crews) == {"w1", "w3"}, "a worker that is not wanted any more ends"
    assert nodes.of(Released) == [], "the program is still in the first slot"
    nodes.end("w1", 0)
    assert [event.slots for event in nodes.of(Released)] == [(A,)]
    nodes.event("w3", Located("n1", 1))
    assert nodes.of(Running)[-1].slots == (B,)


def test_a_worker_that_cannot_start_beside_the_last_ones_costs_them_no_grace() -> None:
    nodes = Nodes(rules=Rules(grace_s=20))
    nodes.assign(A)
    nodes.ignores_sigterm = True
    nodes.answers = False
    nodes.assign(A, C)
    nodes.event(nodes.worker_on("n2"), Gone("was lost"))
    assert nodes.terminated == [("w1", 20)]
    nodes.answers = True
    nodes.go(2)
    nodes.end("w1", 0)
    nodes.event("w2", Located("n1", 1))
    assert nodes.of(Running)[-1].slots == (A, C)


def test_slots_that_a_job_gives_up_are_released_only_when_its_processes_are_gone() -> None:
    nodes = Nodes()
    nodes.assign(A, C)
    nodes.ignores_sigterm = True
    nodes.assign(A)
    nodes.go(5)
    assert nodes.of(Released) == []
    nodes.end(nodes.worker_on("n2"), 0)
    assert [event.slots for event in nodes.of(Released)] == [(C,)]
    nodes.end("w1", 0)
    assert nodes.of(Running)[-1].slots == (A,)


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace_and_that_is_told() -> None:
    nodes = Nodes(rules=Rules(grace_s=20))
    nodes.assign(A)
    nodes.ignores_sigterm = True
    nodes.assign()
    nodes.go(20)
    nodes.end("w1", -9, overdue=True)
    (killed,) = nodes.of(Killed)
    assert killed.what == "rank 0 went on 20 s after SIGTERM and was killed"
    assert nodes.of(WorkerLost) == []


def test_processes_that_go_on_after_a_program_that_has_saved_are_told_as_such() -> None:
    nodes = Nodes(rules=Rules(grace_s=20))
    nodes.assign(A)
    nodes.ignores_sigterm = True
    nodes.assign()
    nodes.go(20)
    nodes.end("w1", 0, overdue=True)
    (killed,) = nodes.of(Killed)
    assert killed.what == "processes that rank 0 had started went on 20 s after SIGTERM and were killed"
    assert [event.slots for event in nodes.of(Released)] == [(A,)]
    assert nodes.machine.phase is Phase.IDLE


def test_what_a_program_leaves_in_the_background_is_told_and_is_no_loss() -> None:
    nodes = Nodes()
    nodes.assign(A)
    nodes.end("w1", 0, left=2)
    (killed,) = nodes.of(Killed)
    assert killed.what == "rank 0 ended and left 2 processes in the background, which were killed"
    assert len(nodes.of(JobFinished)) == 1


def test_a_worker_that_does_not_even_answer_is_killed_after_that() -> None:
    nodes = Nodes(rules=Rules(grace_s=20))
    nodes.assign(A)
    nodes.ignores_sigterm = True
    nodes.assign()
    nodes.go(100)
    assert nodes.machine.crews == {}
    assert [event.slots for event in nodes.of(Released)] == [(A,)]


def test_an_error_is_tried_again_later_each_time_and_then_ends_the_job() -> None:
    nodes = Nodes(max_failures=2)
    nodes.assign(A, C)
    for n in range(3):
        nodes.go(1)
        nodes.end(nodes.worker_on("n2"), 1, f"ValueError: {n}")
        assert (f"w{2 * n + 1}", ABORT_S) in nodes.terminated, "its peers end as well"
        nodes.go(2.0**n)
    assert [event.summary for event in nodes.of(Failing)] == ["ValueError: 0", "ValueError: 1"]
    (failed,) = nodes.of(JobFailed)
    assert (failed.summary, failed.tries) == ("ValueError: 2", 3)
    assert [event.retried for event in nodes.of(Running)] == [False, True, True]
    assert nodes.machine.crews == {}


def test_the_same_error_twice_without_a_step_between_ends_the_job() -> None:
    nodes = Nodes()
    nodes.assign(A)
    nodes.end("w1", 3, "train.py exited with status 3")
    nodes.go(1)
    nodes.end("w2", 3, "train.py exited with status 3")
    assert len(nodes.of(JobFailed)) == 1


def test_a_long_run_between_the_same_errors_of_a_program_that_says_nothing_counts_as_progress() -> None:
    nodes = Nodes(max_failures=2)
    nodes.assign(A)
    for n in range(3):
        assert nodes.of(JobFailed) == []
        nodes.go(100)
        nodes.end(f"w{n + 1}", 1, "RuntimeError: connection reset")
        nodes.go(30)
    assert len(nodes.of(Failing)) == 2
    assert len(nodes.of(JobFailed)) == 1


def test_an_error_ends_a_program_that_may_not_be_started_again() -> None:
    nodes = Nodes(rules=Rules(retries_errors=False))
    nodes.assign(A)
    nodes.end("w1", 3)
    (failed,) = nodes.of(JobFailed)
    assert failed.summary == "train.py exited with status 3"
    assert nodes.of(Failing) == []


@pytest.mark.parametrize("ran_s", [0, 100])
def test_a_lost_worker_costs_no_failure_and_the_rest_starts_with_its_place(ran_s: float) -> None:
    nodes = Nodes()
    nodes.assign(A, C)
    nodes.go(ran_s)
    nodes.ranks.pop(gone := nodes.worker_on("n2"))
    nodes.event(gone, Gone("was lost with its worker"))
    assert nodes.terminated == [("w1", ABORT_S)]
    nodes.go(1)
    second = nodes.of(Running)[-1]
    assert (second.slots, second.recovered, second.generation) == ((A, C), True, 2)
    assert nodes.machine.budget.failures == 0
    assert nodes.of(WorkerLost)[0].slot == C


def test_losses_without_progress_end_the_job_and_long_runs_between_them_do_not() -> None:
    unlucky, hopeless = Nodes(), Nodes()
    for nodes, ran_s in ((unlucky, 70), (hopeless, 5)):
        nodes.assign(A)
        for _ in range(6):
            if nodes.machine.phase is Phase.ENDED:
                break
            nodes.go(ran_s)
            nodes.ranks.clear()
            nodes.event(nodes.worker_on("n1"), Gone("was lost"))
            nodes.go(40)
    assert unlucky.of(JobFailed) == []
    (failed,) = hopeless.of(JobFailed)
    assert failed.summary.startswith("lost again and again without progress: the worker on node n1")


def test_a_loss_ends_a_job_whose_policy_allows_no_other_start() -> None:
    nodes = Nodes(rules=Rules(retries_errors=False, retries_losses=False))
    nodes.assign(A)
    nodes.ranks.clear()
    nodes.event("w1", Gone("was lost with its worker"))
    (failed,) = nodes.of(JobFailed)
    assert failed.why == POLICY


def test_a_place_that_cannot_be_set_up_fails_the_job_with_the_reason() -> None:
    nodes = Nodes()
    nodes.answers = False
    nodes.assign(A)
    nodes.event("w1", Gone("could not set up its folder: no space", setup_failed=True))
    (failed,) = nodes.of(JobFailed)
    assert failed.summary == "could not set up its folder: no space"


def test_other_slots_while_workers_start_keep_those_that_fit() -> None:
    nodes = Nodes()
    nodes.answers = False
    nodes.assign(A, C)
    nodes.assign(C)
    assert set(nodes.machine.crews) == {"w2"}
    assert [event.slots for event in nodes.of(Released)] == [(A,)]
    nodes.event("w2", Located("n2", 1))
    assert nodes.of(Running)[-1].slots == (C,)


def test_a_cancelled_job_gets_a_few_seconds_and_releases_everything() -> None:
    nodes = Nodes()
    nodes.assign(A, C)
    nodes.do(nodes.machine.cancel(nodes.now))
    assert {grace for _, grace in nodes.terminated} == {ABORT_S}
    assert {slot for event in nodes.of(Released) for slot in event.slots} == {A, C}
    nodes.assign(A)
    assert nodes.machine.crews == {}
    assert nodes.of(Released)[-1].slots == (A,), "what comes late is given back at once"


def test_an_older_assignment_changes_nothing_and_its_slots_are_given_back() -> None:
    nodes = Nodes()
    nodes.assign(A)
    nodes.do(nodes.machine.assign((C,), 1, nodes.now))
    assert nodes.machine.group == (A,)
    assert nodes.of(Released)[-1].slots == (C,)


def test_a_worker_that_never_starts_is_told_each_time_and_ends_the_job_after_some_tries() -> None:
    nodes = Nodes()
    nodes.answers = False
    nodes.assign(A)
    nodes.go(2 * LOCATE_S)
    assert nodes.of(WorkerLost)[0].reason == "the worker on node n1 did not start in time and was killed"
    nodes.go(10 * LOCATE_S)
    (failed,) = nodes.of(JobFailed)
    assert failed.summary.startswith("lost again and again without progress")
    assert [event.slots for event in nodes.of(Released)] == [(A,)]


def test_a_worker_waits_for_its_gpu_for_as_long_as_a_long_grace_lasts() -> None:
    nodes = Nodes(rules=Rules(grace_s=3600))
    nodes.assign(A)
    nodes.ignores_sigterm, nodes.answers = True, False
    nodes.assign(A, B)
    nodes.go(3500)
    assert nodes.of(WorkerLost) == []
    nodes.end("w1", 0)
    nodes.event("w2", Located("n1", 1))
    assert nodes.of(Running)[-1].slots == (A, B)


def test_a_worker_that_hangs_after_its_processes_were_done_costs_the_others_nothing() -> None:
    nodes = Nodes()
    nodes.assign(A, C)
    first, second = nodes.worker_on("n1"), nodes.worker_on("n2")
    nodes.event(first, Ended(0, 0))
    nodes.go(100)
    assert first not in nodes.machine.crews, "it was killed, as it did not go"
    assert nodes.terminated == []
    nodes.end(second, 0)
    assert len(nodes.of(JobFinished)) == 1
    assert nodes.of(WorkerLost) == []


def test_a_program_that_may_run_once_is_not_started_again_where_a_part_of_it_may_have_begun() -> None:
    nodes = Nodes(rules=Rules(retries_errors=False, retries_losses=False))
    nodes.answers = False
    nodes.assign(A, C)
    nodes.begins_at_once = False
    for node in ("n1", "n2"):
        nodes.event(nodes.worker_on(node), Located(node, 1))
    nodes.event(nodes.worker_on("n1"), Begun(1, (100,)))
    nodes.event(nodes.worker_on("n2"), Gone("was lost with its worker"))
    assert len(nodes.of(JobFailed)) == 1
    nodes.go(100)
    assert len(nodes.begins) == 2


def test_nothing_is_due_while_a_worker_that_is_in_the_way_is_being_killed() -> None:
    nodes = Nodes()
    nodes.answers = False
    nodes.assign(A)
    nodes.kills_at_once = False
    nodes.assign(A, B)
    assert nodes.machine.next_deadline_s > nodes.now
    nodes.event("w1", Gone("was killed"))
    assert set(nodes.machine.crews) == {"w2"}


def test_processes_that_are_killed_are_told_with_the_time_that_they_had() -> None:
    nodes = Nodes(rules=Rules(grace_s=20))
    nodes.assign(A, C)
    nodes.ignores_sigterm = True
    nodes.event(nodes.worker_on("n2"), Ended(1, 1, "ValueError: 0"))
    nodes.go(5)
    nodes.end("w1", -9, overdue=True)
    (killed,) = nodes.of(Killed)
    assert killed.what == "rank 0 went on 5 s after SIGTERM and was killed"


def test_a_job_that_is_cancelled_while_it_saves_is_killed_soon_and_told_how_long_it_had() -> None:
    nodes = Nodes(rules=Rules(grace_s=300))
    nodes.assign(A)
    nodes.ignores_sigterm = True
    nodes.assign()
    nodes.go(10)
    nodes.do(nodes.machine.cancel(nodes.now))
    nodes.go(5)
    nodes.end("w1", -9, overdue=True)
    assert nodes.of(Killed)[0].what == "rank 0 went on 15 s after SIGTERM and was killed"


def test_a_worker_has_time_to_keep_outputs_after_the_last_of_its_processes() -> None:
    nodes = Nodes(rules=Rules(grace_s=20))
    nodes.assign(A)
    nodes.ignores_sigterm = True
    nodes.assign()
    nodes.go(20 + LAST_S)
    assert set(nodes.machine.crews) == {"w1"}
    nodes.end("w1", 0)
    assert nodes.machine.phase is Phase.IDLE


def test_outputs_may_be_fetched_for_minutes_before_the_processes_begin() -> None:
    nodes = Nodes()
    nodes.begins_at_once = False
    nodes.assign(A)
    nodes.go(300)
    nodes.event("w1", Begun(1, (100,)))
    assert len(nodes.of(Running)) == 1
    assert nodes.of(WorkerLost) == []
