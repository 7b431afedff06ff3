"""How a job gets from one state to the next: what is sent, and what is true from then on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...core.job import RestartPolicy
from ..protocol.job_events import Failing, JobFailed, JobFinished, Released, Running, WorkerLost
from ..protocol.messages import Abort, Crashed, Finished, Leave, Left, Stop
from ..protocol.ranks import joins, rank_order
from .effects import Send
from .failures import POLICY, fault_of
from .slot_tries import backoff_s
from .states import (
    Ended,
    Finishing,
    Forming,
    Group,
    Grouped,
    JobEnd,
    Pause,
    Recovering,
    Starting,
    Stopping,
    Training,
)
from .training_run import TrainingRun
from .worker_state import Stage, TrainingWorker

# --- forming a group ----------------------------------------------------------------------------------------


def form(
    run: TrainingRun, members: Sequence[TrainingWorker], leavers: Sequence[TrainingWorker], now: float
) -> None:
    """Send `Join` of the next generation to every member, and `Leave` to every leaver."""
    pause, last = run.pause(now), run.group
    run.generation += 1
    slots = {member.id: member.slot for member in members}
    if set(slots.values()) == run.targets:  # else the rest of them is still to come
        run.carried_out = run.sequence
    ranks = rank_order(slots, run.ranks)
    run.batch = run.batch_for([slots[id] for id in ranks])
    for leaver in leavers:
        leaver.retired = True
        leaver.due(now + run.timeouts.regroup_s + run.timeouts.exit_s, "did not leave")
        run.effects.send(leaver.id, Leave(run.generation))
    held = None
    for id, command in joins(ranks, slots, run.generation, run.store, run.batch).items():
        worker = run.workers[id]
        worker.rank, worker.sent, worker.stage = command.rank, run.generation, Stage.MEMBER
        if command.rank == 0 and last_rank_0_is_leaving(run):
            held = Send(id, command)
        else:
            run.effects.send(id, command)
    group = Group(
        run.generation,
        tuple(ranks),
        warm=any(member.joined for member in members),
        finished=last.finished if last is not None else None,
    )
    run.state = Forming(group, pause, now + run.timeouts.regroup_s, held)


def last_rank_0_is_leaving(run: TrainingRun) -> bool:
    """Return whether outputs of the last rank 0 are still to come."""
    last = run.workers.get(run.rank_0)
    if not run.hands_over or last is None or not last.retired:
        return False
    return last.lives and not last.killed and last.outcome is None


def send_held(run: TrainingRun, held: Send | None) -> None:
    """Let the new rank 0 join: the last one has left, or takes too long, or the group will not form as it is."""
    worker = run.workers.get(held.worker) if held is not None else None
    if held is not None and worker is not None and worker.lives:
        run.effects.add(held)


def settle(run: TrainingRun, state: Forming, now: float) -> None:
    """Train: everyone has joined."""
    for member in run.members:
        member.heard_s = now
    run.state = Training(state.group)
    tell_running(run, state.group, state.pause, now)


def tell_running(run: TrainingRun, group: Group, pause: Pause, now: float) -> None:
    """Report the group that trains; `pause` is the one that has just ended."""
    pause_s = None if pause.since_s is None else now - pause.since_s
    slots = tuple(run.workers[id].slot for id in group.ranks)
    retried = pause.retried and pause_s is not None
    run.effects.tell(
        Running(run.carried_out, slots, group.warm, pause_s, pause.recovered, group.generation, retried)
    )


# --- leaving a group ----------------------------------------------------------------------------------------


def start_recovery(run: TrainingRun, now: float, wait_s: float | None = None) -> None:
    """Wait until every survivor has undone its step: a member is lost, or the group broke."""
    if not isinstance(run.state, Grouped) or isinstance(run.state, Recovering):
        return
    pause = replace(run.pause(now), recovered=True)
    held = run.state.held if isinstance(run.state, Forming) else None
    wait_s = run.timeouts.broken_s if wait_s is None else wait_s
    run.state = Recovering(run.state.group, pause, now + wait_s)
    send_held(run, held)


def stop(run: TrainingRun, group: Group, now: float) -> None:
    """Let the group save and end; what follows is decided when it is gone."""
    run.state = Stopping(group, run.pause(now), now + run.timeouts.stop_s)
    for member in run.members:
        run.effects.send(member.id, Stop(save=True))


def go_cold(run: TrainingRun, pause: Pause) -> None:
    """End every training worker; new ones start from the newest checkpoint as their slots become free."""
    for worker in run.workers.values():
        worker.kill(run.effects)
    run.state = Starting(pause)


def script_finished(run: TrainingRun, worker: TrainingWorker, event: Finished, now: float) -> None:
    """Wait for the others: a member has reached the end of the script."""
    state = run.state
    if not isinstance(state, Grouped):
        return
    if state.group.finished is None or worker.rank == 0:
        state = replace(state, group=replace(state.group, finished=event))
        run.state = state
    # While survivors undo a step only rank 0's end counts: others may have left before a step to repeat.
    if isinstance(state, Finishing) or (isinstance(state, Recovering) and worker.rank != 0):
        return
    held = state.held if isinstance(state, Forming) else None
    run.state = Finishing(state.group, state.pause, now + run.timeouts.finish_s)
    send_held(run, held)


# --- losses and errors --------------------------------------------------------------------------------------


def abort_peers(run: TrainingRun, worker: TrainingWorker) -> None:
    """Stop whoever waits for a dead worker in a collective, or in a group that is forming."""
    if isinstance(worker.outcome, Left | Finished):
        return
    for peer in run.workers.values():
        if peer is worker or not peer.lives or peer.retired:
            continue
        if worker.sent > worker.joined and peer.sent == worker.sent:
            run.effects.send(peer.id, Abort(worker.sent))
        elif worker.joined and peer.joined == worker.joined and peer.broken < worker.joined:
            run.effects.send(peer.id, Abort(worker.joined))


def member_lost(run: TrainingRun, worker: TrainingWorker, reason: str) -> None:
    """Tell of a lost member; the job may be given up for it."""
    summary = _tell_lost(run, worker, reason)
    if _first_lost(run):
        count_loss(run, worker, summary)


def count_loss(run: TrainingRun, worker: TrainingWorker, summary: str) -> None:
    """Count a lost worker, and give the job up where losses go on without progress."""
    run.last_error = summary
    steps = max(worker.steps, run.steps)
    before = worker.joined_steps if worker.joined else steps
    again_and_again = run.budget.loss(steps, steps - before)
    if run.budget.restarts is RestartPolicy.NEVER:
        _give_up(run, summary, POLICY)
    elif again_and_again:
        _give_up(run, f"lost again and again without progress: {summary}")


def storage_failed(run: TrainingRun, worker: TrainingWorker, error: Crashed, now: float) -> None:
    """Tell of a worker that storage refused; workers start later each time, and the job may be given up."""
    summary = _tell_lost(run, worker, f"ended: {error.summary}")
    if worker.id in run.ranks and not _first_lost(run):
        return
    run.last_error = summary
    again_and_again = run.budget.outage(max(worker.steps, run.steps))
    if run.budget.restarts is RestartPolicy.NEVER:
        _give_up(run, summary, POLICY)
        return
    if again_and_again:
        _give_up(run, f"storage failed again and again: {summary}")
        return
    run.not_before_s = now + backoff_s(run.budget.outages)


def _tell_lost(run: TrainingRun, worker: TrainingWorker, reason: str) -> str:
    which = f"the worker of rank {worker.rank}" if worker.id in run.ranks else "a worker"
    summary = f"{which} on node {worker.slot.node_id[:8]} {reason}"
    run.effects.tell(WorkerLost(summary, worker.slot))
    return summary


def _first_lost(run: TrainingRun) -> bool:
    """Return whether the group has lost nobody before, and note that it has now.

    A node takes all its replicas with it: whatever a group loses counts once.
    """
    if not isinstance(run.state, Grouped) or run.state.group.lost_one:
        return False
    run.state = replace(run.state, group=replace(run.state.group, lost_one=True))
    return True


def _give_up(run: TrainingRun, summary: str, why: str = "") -> None:
    run.effects.tell(JobFailed(summary, "", run.budget.failures, why))
    end(run, JobEnd.FAILED)


def script_failed(
    run: TrainingRun, error: Crashed, now: float, worker: TrainingWorker | None = None, *, repeats: bool = True
) -> None:
    """Try the script again, from its last checkpoint, or give the job up.

    `worker` is the one that trained until then. `repeats`: the same error again would say that it stays.
    """
    run.last_error = error.summary
    # Where memory ran out the next try has a smaller batch.
    fault = fault_of(error.summary, error.traceback) if repeats and not error.out_of_memory else None
    steps, stride = (max(worker.steps, run.steps), worker.stride) if worker is not None else (0, 0)
    why = run.budget.user_error(error.summary, fault, steps, stride, of_script=not error.out_of_memory)
    failures = run.budget.failures
    if why:
        run.effects.tell(JobFailed(error.summary, error.traceback, failures, why))
        end(run, JobEnd.FAILED)
    else:
        run.effects.tell(Failing(error.summary, failures, error.traceback))
        run.not_before_s = now + backoff_s(failures)
        go_cold(run, replace(run.pause(now), retried=True))


# --- the end ------------------------------------------------------------------------------------------------


def succeed(run: TrainingRun, group: Group) -> None:
    finished = group.finished or Finished(run.steps)
    run.effects.tell(JobFinished(finished.metrics, finished.target_reached, finished.ended_early))
    end(run, JobEnd.FINISHED)


def end(run: TrainingRun, how: JobEnd) -> None:
    """End every training worker, and release slots that nothing is in."""
    vacant = tuple(slot for slot in run.desired if slot not in run.occupied)
    run.state, run.desired = Ended(how), ()
    for worker in run.workers.values():
        worker.kill(run.effects)
    if vacant:
        run.effects.tell(Released(run.sequence, vacant))
