"""The next step from the workers a job has to the slots where they should be.

Which way it goes depends on what is left of the old group (docs/architecture.md, "Regroup", "Recovery", "Cold"):

    warm       some slot stays: newcomers get ready while the old group trains, then one `Join`/`Leave` to all
    migration  no slot stays: newcomers get ready, the old group saves and stops, they join from its checkpoint
    recovery   a worker died: survivors report `Broken` and form the next generation; a replacement joins warm
    cold       nothing is left, or something did not settle in time: end all, start again from the checkpoint
"""

from __future__ import annotations

from .overdue import let_join
from .states import Forming, Group, Idle, Pause, Recovering, Starting, Stopping, Training
from .training_run import TrainingRun
from .transitions import form, go_cold, last_rank_0_is_leaving, stop, tell_running


def step(run: TrainingRun, now: float) -> None:
    """Do what the state allows now; called after every input."""
    if isinstance(run.state, Forming) and run.state.held is not None and not last_rank_0_is_leaving(run):
        let_join(run, run.state, now)
    if isinstance(run.state, Recovering):
        _recover(run, run.state, now)
    if isinstance(run.state, Stopping) and not run.members:
        run.state = Idle(run.state.pause)
    match run.state:
        case Idle(pause) | Starting(pause):
            _without_group(run, pause, now)
        case Training(group):
            _while_training(run, group, now)


def _recover(run: TrainingRun, state: Recovering, now: float) -> None:
    """Form the next group of the survivors once each has undone its step."""
    members = run.members
    if not members:
        go_cold(run, state.pause)
    elif all(member.broken == state.group.generation for member in members):
        targets = run.targets
        # Where no survivor's slot is wanted any more they re-form all the same: they hold the state to save.
        staying = [member for member in members if member.slot in targets] or members
        leaving = [member for member in members if member not in staying]
        form(run, staying + run.standby, leaving, now)


def _without_group(run: TrainingRun, pause: Pause, now: float) -> None:
    """Start what is missing, and form a group when all are ready or have waited long enough."""
    run.dismiss_unwanted()
    if not run.targets:
        run.state = Idle(Pause(pause.since_s))  # it starts as any when it gets slots again
        return
    run.state = Starting(pause)
    run.start_vacant(now)
    ready = run.standby
    if ready and (len(ready) == len(run.targets) or run.has_gathered(now)):
        form(run, ready, [], now)


def _while_training(run: TrainingRun, group: Group, now: float) -> None:
    """Start newcomers beside the group, and regroup or stop when they are ready."""
    run.dismiss_unwanted()
    targets = run.targets
    if not targets:
        stop(run, group, now)
        return
    run.start_vacant(now)
    staying = [member for member in run.members if member.slot in targets]
    leaving = [member for member in run.members if member.slot not in targets]
    ready = run.standby
    complete = len(staying) + len(ready) == len(targets) or run.has_gathered(now)
    if staying and (leaving or ready) and complete:
        form(run, staying + ready, leaving, now)
    elif not staying and ready and complete:
        stop(run, group, now)
    elif not leaving and not ready and len(staying) == len(targets) and run.carried_out != run.sequence:
        run.carried_out = run.sequence
        tell_running(run, group, Pause(), now)
