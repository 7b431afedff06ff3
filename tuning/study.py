"""The decisions of a study: from its state and what is seen to its next state and actions. Pure.

The state is stored before the actions are done. What was asked for and is not seen yet is asked for again, under
the same names. So a study that was killed between a decision and its actions goes on as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from .actions import Action, Cancel, Finish, GroupState, Keep, Origin, Seen, SeenGroup, Submit, Weigh
from .bubbles import Place, by_rate
from .planner import EpochTime, Kind, kind_of, merges, plan_groups, split, splits, worth_splitting
from .proposals import Tried, propose, wave_of
from .rungs import Bracket, asha_stops, bracket_of, brackets, goodness, halving_keeps, levels
from .state import Group, Run, RunState, StudyState
from .study_file import StudyFile, deadline_problem
from .transfer import Eager, counts, eager, promoted, replaced

SPLIT_LEAST = 4  # trials of a part, where no epoch was timed
ENOUGH = 0.75  # of a training, to tell which narrow models are the best
FULL = 32  # trials that fill most of a GPU: fewer wait at a rung for others, while there is other work
EARLY = 0.9  # part of a bubble's rate that is counted on, so that groups there come to a rung before the others
TIME_TO_SPARE = 1.1  # of what the target needs, before a deadline
MOST_FAILURES = 3  # of groups before any trial has reported: then it is the script that fails
_CANNOT_FUSE = ("cannotfuse", "cannot be fused", "cannot fuse")
_HOPELESS = ("shrink: ", "hyperparameters: ")  # what no other group of the study would do better
_OUT_OF_MEMORY = ("out of memory", "outofmemory", "oom")


def decide(study: StudyFile, state: StudyState, seen: Seen, merge: bool = True) -> tuple[StudyState, list[Action]]:
    """Return the study's next state, and what is to be done now.

    Args:
        merge: whether groups that have thinned at a rung give their GPU to a fuller one, and are filled again by
            others that come to that rung.
    """
    desk = _Decision(study, state.copied(), seen, merge)
    return desk.state, desk.actions()


class _Decision:
    """One decision; it changes its own copy of the state."""

    def __init__(self, study: StudyFile, state: StudyState, seen: Seen, merge: bool) -> None:
        self.study, self.state, self.seen, self.merge = study, state, seen, merge
        self.mode, self.epochs = study.mode, study.epochs
        self.apart = study.cannot_fuse()
        algorithm = study.algorithm
        self.rungs = levels(algorithm.grace, algorithm.reduction, self.epochs) if algorithm.name == "asha" else []
        self.brackets: list[Bracket] = brackets(
            algorithm.name, study.trials, algorithm.grace, algorithm.reduction, self.epochs
        )
        self.idle = sum(seen.idle.values())
        self.until = self.epochs
        if study.shrink > 1 and self.rungs and self.rungs[-1] >= ENOUGH * self.epochs:
            self.until = self.rungs.pop()  # the rest would serve the narrow model only

    def actions(self) -> list[Action]:
        state = self.state
        if state.began_s is None:
            state.began_s = self.seen.now_s
        if not state.finished:
            self._take_reports()
            self._stop_at_rungs()
            self._look_at_deadline()
        if not state.finished:
            self._leave_time_for_target()
            if self._past_deadline():
                self._finish_early()
        if not state.finished:
            self._propose()
            self._climb()
        if not state.finished:
            self._start_in_bubbles()
            self._start_waiting(whole=True)
            self._start_target_early()
            self._start_waiting()
            self._merge_groups()
            self._split_groups()
        return self._asked()

    # What is seen

    def _take_reports(self) -> None:
        for id, group in list(self.state.groups.items()):
            one = self.seen.groups.get(id)
            if one is None or group.state.over:
                continue
            members = [self.state.runs[key] for key in group.runs]
            for run in members:
                run.gpu_s += max(one.gpu_s - group.gpu_s, 0.0) / len(members)
            group.gpu_s = max(one.gpu_s, group.gpu_s)
            group.state = one.state
            for key in list(group.runs):
                self._take_metrics(key, one.metrics.get(key, {}))
            if one.state.over:
                self._end_group(id, group, one)

    def _take_metrics(self, key: int, metrics: Mapping[int, float]) -> None:
        run = self.state.runs[key]
        rungs = set(self.rungs)
        for epoch in sorted(epoch for epoch in metrics if run.epoch < epoch <= run.until):
            metric = metrics[epoch] if math.isfinite(metrics[epoch]) else None
            run.reports(epoch, metric, self.mode)
            if epoch in rungs:
                run.rungs.setdefault(epoch, metric)

    def _end_group(self, id: str, group: Group, one: SeenGroup) -> None:
        failed = one.state is GroupState.FAILED
        message = one.message.lower()
        silent = not failed and one.reported and self.study.metric not in one.reported
        if silent:
            self._finish_without(
                f"metric: {self.study.metric} is never reported; the script reports {', '.join(one.reported)}"
            )
        if failed and any(word in message for word in _CANNOT_FUSE) and len(group.runs) > 1:
            self.state.unfused = one.message
            self._return(id, group.runs)
            return
        if failed and len(group.runs) > 1:
            if any(word in message for word in _OUT_OF_MEMORY):
                kind = _key(self._kind(group.runs[0]), group.shrink)
                self.state.most[kind] = max(len(group.runs) // 2, 1)
                self._return(id, group.runs)
                return
            if self._script_fails(one.message):
                return
            # One of them fails: the halves run apart until it is alone.
            kept = list(group.runs)
            self._return(id, kept)
            for part in split(kept, 2):
                self._new_group(part)
            return
        for key in list(group.runs):
            run = self.state.runs[key]
            if run.state is not RunState.IN_GROUP:
                continue
            if run.epoch >= run.until:
                self._complete(key, id)
            else:
                run.state = RunState.FAILED
                run.message = one.message or f"its group ended after epoch {run.epoch} of {run.until}"

    def _script_fails(self, message: str) -> bool:
        """Return whether no trial can be trained; the study then ends."""
        if any(run.epoch for run in self.state.runs.values()):
            return False
        self.state.failures += 1
        if self.state.failures < MOST_FAILURES and not any(word in message for word in _HOPELESS):
            return False
        self._finish_without(f"no trial has trained: {message}")
        return True

    def _complete(self, key: int, id: str) -> None:
        run = self.state.runs[key]
        if run.until >= (self.until if key < self.study.trials else self.epochs):
            run.state = RunState.DONE
        else:
            run.state, run.origin = RunState.PAUSED, Origin(id, key, run.epoch)

    def _return(self, id: str, keys: Iterable[int]) -> None:
        """Let runs wait again, from the last epoch that they reported."""
        for key in list(keys):
            run = self.state.runs[key]
            if run.epoch and (run.origin is None or run.origin.epoch < run.epoch):
                run.origin = Origin(id, key, run.epoch)
            run.state, run.group = RunState.WAITING, ""

    # Who stops

    def _stop_at_rungs(self) -> None:
        if self.study.algorithm.name == "asha":
            self._stop_by_asha()
        for index, bracket in enumerate(self.brackets):
            self._halve(index, bracket)

    def _searched(self) -> dict[int, Run]:
        """Return the runs of the search itself, not those that were promoted."""
        return {key: run for key, run in self.state.runs.items() if key < self.study.trials}

    def _stop_by_asha(self) -> None:
        for rung in self.rungs:
            recorded = {key: run.rungs[rung] for key, run in self._searched().items() if rung in run.rungs}
            arrived = [
                key
                for key in recorded
                if (run := self.state.runs[key]).state is RunState.IN_GROUP and run.decided < rung
            ]
            if not arrived:
                continue
            stopped = set(asha_stops(arrived, recorded, self.study.algorithm.reduction, self.mode))
            for key in arrived:
                self.state.runs[key].decided = rung
                if key in stopped:
                    self._leave(key, RunState.STOPPED)
            if self.merge:
                self._regroup({self.state.runs[key].group for key in arrived if key not in stopped}, rung)

    def _regroup(self, ids: Iterable[str], rung: int) -> None:
        """Let groups that have thinned end at a rung where their GPU can be used better.

        Where new trials wait, what is left of a group waits for others that come to the rung, until they fill one.
        Where the target is to begin, one group gives it its GPU, and those that come to the rung later take its
        trials along.
        """
        fresh = self._fills()
        for id in sorted(ids, key=lambda id: (len(self.state.groups[id].runs), id)):
            group = self.state.groups[id]
            full = len(group.runs) >= FULL and not self._uses_bubbles()
            if group.state.over or group.cancelled or full:
                continue
            kind = self._kind(group.runs[0])
            mates = self._mates(kind, rung)
            coming = [len(self.state.groups[other].runs) for other in self._coming(kind, rung) if other != id]
            own = list(group.runs)
            if group.place:
                self._park(own)  # the best trials go on where they are fastest
                continue
            if fresh:
                if len(own) + len(mates) >= FULL:
                    self._join(own, mates, kind)
                else:
                    self._park(own)
            elif mates:
                later = sum(coming) / self.study.algorithm.reduction
                even = int((len(own) + len(mates) + later) / (1 + len(coming)))
                self._join(own, mates[: max(even - len(own), 0)] if coming else mates, kind)
            elif coming and self._makes_room(group, kind):
                self._park(own)

    def _park(self, keys: Iterable[int]) -> None:
        for key in keys:
            run = self.state.runs[key]
            run.origin = Origin(run.group, key, run.epoch)
            self._leave(key, RunState.WAITING)

    def _join(self, own: list[int], mates: list[int], kind: Kind) -> None:
        """Let a group end, and its trials go on with others."""
        if mates := mates[: max(self._most(kind, self.study.shrink) - len(own), 0)]:
            self._park(own)
            self._new_group([*own, *mates])

    def _fills(self) -> bool:
        """Return whether trials wait, or will be proposed, that fill a GPU better than what has thinned."""
        new = sum(run.state is RunState.WAITING and not run.epoch for run in self._searched().values())
        return self._proposes_more() or new >= FULL

    def _mates(self, kind: Kind, rung: int) -> list[int]:
        """Return the trials that wait at a rung."""
        return [
            key
            for key, run in self._searched().items()
            if run.state is RunState.WAITING and run.epoch == rung and self._kind(key) == kind
        ]

    def _coming(self, kind: Kind, rung: int) -> list[str]:
        """Return the groups that will come to a rung."""
        return [
            id
            for id, group in self.state.groups.items()
            if not group.state.over and not group.cancelled and group.shrink == self.study.shrink
            if self.state.runs[group.runs[0]].epoch < rung and self._kind(group.runs[0]) == kind
        ]

    def _makes_room(self, group: Group, kind: Kind) -> bool:
        """Return whether the target is to begin now, to end with the search, and no GPU is idle for it."""
        if self.idle or self._open_groups() or not self._target_due():
            return False
        if any(run.open for run in self._targets().values()):
            return False
        left = group.until - self.state.runs[group.runs[0]].epoch
        narrow, wide = (self.seen.times.get((kind, shrink)) for shrink in (self.study.shrink, 1))
        if narrow is None or wide is None:
            return 2 * left <= self.epochs
        return left * narrow.of(len(group.runs)) <= self.epochs * wide.of(1)

    def _leave(self, key: int, state: RunState) -> None:
        """Take a run out of its group; the group ends with its last."""
        run = self.state.runs[key]
        group = self.state.groups.get(run.group)
        run.state, run.group = state, ""
        if group is not None:
            group.runs.remove(key)
            if not group.runs and not group.cancelled:
                group.cancelled = True
                self.idle += group.state is GroupState.RUNNING and not group.place

    def _halve(self, index: int, bracket: Bracket) -> None:
        members = {
            key: run for key, run in self._searched().items() if bracket_of(run.trial, self.brackets) == index
        }
        if len(members) < bracket.trials:
            return
        for rung, after in zip(bracket.ends, bracket.ends[1:], strict=False):
            here = {key: run for key, run in members.items() if run.until == rung}
            if not here or any(run.state in (RunState.WAITING, RunState.IN_GROUP) for run in here.values()):
                continue
            paused = {key: run.last for key, run in here.items() if run.state is RunState.PAUSED}
            if not paused:
                continue
            on = set(halving_keeps(paused, self.study.algorithm.reduction, self.mode))
            for key in paused:
                run = self.state.runs[key]
                run.state, run.group = (RunState.WAITING if key in on else RunState.STOPPED), ""
                run.until = after if key in on else run.until

    # New trials

    def _proposes_more(self) -> bool:
        return not self.state.all_proposed and len(self.state.trials) < self.study.trials

    def _propose(self) -> None:
        study, state = self.study, self.state
        if not self._proposes_more():
            return
        count = study.trials - len(state.trials)
        if study.algorithm.learns:
            wave = wave_of(study.trials, study.algorithm.wave)
            waiting = [run for run in state.runs.values() if run.state is RunState.WAITING]
            running = [run for run in state.runs.values() if run.state is RunState.IN_GROUP]
            if waiting or (running and not self.idle):
                return
            count = min(count, wave)
        tried = []
        for key, run in sorted(self._searched().items()):
            ended = not run.open
            tried.append(Tried(state.trials[key], run.last if ended else None, ended))
        found = propose(study.algorithm.name, study.searched(), self.mode, study.seed, tried, count)
        for values in found:
            key = len(state.trials)
            state.trials.append(values)
            until = self.brackets[bracket_of(key, self.brackets)].ends[0] if self.brackets else self.until
            state.runs[key] = Run(trial=key, shrink=study.shrink, until=until)

    # Promotion

    def _climb(self) -> None:
        """Go on to the next width once all runs of this one are over; finish after the last."""
        state, ladder = self.state, self.study.ladder
        if self._proposes_more():
            return
        while not state.finished:
            if any(run.open for run in self._stage_runs().values()):
                return
            behind = self._stage_runs() or self._searched()  # none are of this width where a deadline left it out
            last = {run.trial: run.last for run in behind.values() if self._counts(run)}
            if state.stage + 1 >= len(ladder):
                self._finish()
                return
            state.stage += 1
            of = 1 if state.all_proposed else counts(self.study.promote, ladder)[state.stage]
            chosen = promoted(last, of, self.mode)
            if not chosen:
                self._finish()
                return
            for trial in chosen:
                self._promote(trial, ladder[state.stage], False)

    def _counts(self, run: Run) -> bool:
        return run.state in (RunState.DONE, RunState.STOPPED) and run.last is not None

    def _stage_runs(self) -> dict[int, Run]:
        if self.state.stage < 0:
            return self._searched()
        width = self.study.ladder[self.state.stage]
        return {
            key: run
            for key, run in self.state.runs.items()
            if key >= self.study.trials and run.shrink == width and not run.eager
        }

    def _promote(self, trial: int, shrink: int, early: bool) -> None:
        """Train a trial at another width. What trains there already is taken, not begun anew."""
        for key, run in self.state.runs.items():
            if run.trial == trial and run.shrink == shrink and run.state is not RunState.DROPPED:
                self.state.runs[key] = found = run.copied()
                found.eager = run.eager and early
                return
        key = max(self.study.trials, max(self.state.runs, default=0) + 1)
        self.state.runs[key] = Run(trial=trial, shrink=shrink, until=self.epochs, eager=early)

    def _targets(self) -> dict[int, Run]:
        """Return the runs of the target itself."""
        if self.study.shrink == 1:
            return self._searched()
        return {key: run for key, run in self.state.runs.items() if run.shrink == 1}

    def _progress(self) -> float:
        """Return the share of the search that is behind it: of each trial, until its end or its stop."""
        runs = self._searched().values()
        if not runs:
            return 0.0
        behind = sum(run.epoch / self.until if run.open else 1.0 for run in runs) / self.study.trials
        return behind if self.study.deadline is None else max(behind, self._elapsed_s() / self.study.deadline)

    def _elapsed_s(self) -> float:
        return self.seen.now_s - (self.state.began_s or 0.0)

    def _target_due(self) -> list[int]:
        """Return the best trial so far, if its target is to be trained before the search ends and is not yet."""
        state, study = self.state, self.study
        if study.shrink == 1 or study.eager >= 1 or self._progress() < study.eager:
            return []
        if study.ladder[state.stage] == 1 and state.stage >= 0:
            return []  # the targets of the ladder train
        best = promoted(self._settled(), 1, self.mode)
        return [one for one in best if not any(r.trial == one and r.shrink == 1 for r in state.runs.values())]

    def _settled(self) -> dict[int, float | None]:
        """Return metrics that do not change at each epoch: at the end, at the last rung, or past the half."""
        found: dict[int, float | None] = {}
        for key, run in self._searched().items():
            if not run.open:
                found[key] = run.last
            elif run.decided:
                found[key] = run.rungs[run.decided]
            elif not self.rungs and 2 * run.epoch >= self.epochs:
                found[key] = run.last
        return {key: metric for key, metric in found.items() if metric is not None}

    def _start_target_early(self) -> None:
        state, study = self.state, self.study
        best = self._target_due()
        if not best:
            return
        metrics = self._settled()
        running = {key: run.epoch / self.epochs for key, run in self._targets().items() if run.open}
        answer = eager(self.idle - self._open_groups(), running, study.promote)
        if answer is Eager.WAIT:
            return
        if answer is Eager.REPLACE:
            by_trial = {key: metrics.get(state.runs[key].trial) for key in running}
            worse = replaced(by_trial, running, self.mode)
            better = goodness(metrics[best[0]], self.mode)
            if worse is None or goodness(by_trial[worse], self.mode) >= better:
                return
            self._leave(worse, RunState.DROPPED)
        self._promote(best[0], 1, True)
        self._start_waiting()

    # Groups

    def _kind(self, key: int) -> Kind:
        return kind_of(self.state.trials[self.state.runs[key].trial], self.apart)

    def _most(self, kind: Kind, shrink: int) -> int:
        """Return the most trials of a group."""
        if self.study.fuse is False or self.state.unfused:
            return 1
        memory = self.seen.memory.get((kind, shrink))
        limit = self.seen.unmeasured if memory is None else max(memory.most, 1)
        if memory is None and self.study.fuse is not True:
            limit = int(self.study.fuse)
        if self.study.fuse is not True:
            limit = min(limit, int(self.study.fuse))
        return max(min(limit, self.state.most.get(_key(kind, shrink), limit)), 1)

    def _open_groups(self) -> int:
        return sum(
            group.state in (GroupState.DECIDED, GroupState.WAITING) and not group.cancelled and not group.place
            for group in self.state.groups.values()
        )

    def _start_waiting(self, whole: bool = False) -> None:
        """Ask for groups of what waits: as many as GPUs are idle, and some that wait where none is.

        Promoted trials are always asked for: the cluster weighs them. `whole`: trials that left thinned groups
        wait for others, unless they fill a GPU.
        """
        while waiting := {key: run for key, run in self.state.runs.items() if run.state is RunState.WAITING}:
            bucket = self._fullest(waiting)
            partly = self._partly(bucket)
            if whole and partly:
                return
            shrink = waiting[bucket[0]].shrink
            if shrink == 1 and self.study.shrink > 1:
                self._new_group(bucket[:1])  # a target trains alone, on as many GPUs as it is worth
                continue
            open = self._open_groups()
            room = self.idle - open if partly else max(self.idle, self.seen.ahead) - open
            if shrink != self.study.shrink:
                room = max(room, len(bucket))
            if room <= 0:
                return
            kinds = {key: self._kind(key) for key in bucket}
            most = {kind: self._most(kind, shrink) for kind in set(kinds.values())}
            new = shrink == self.study.shrink and not waiting[bucket[0]].epoch
            if new:  # later waves are as large as the first, however many GPUs are idle at their start
                most = {kind: min(n, self.state.sizes.get(_key(kind, shrink), n)) for kind, n in most.items()}
            groups = plan_groups(kinds, most, max(self.idle - open, 1))
            for kind, members in groups if new else ():
                self.state.sizes.setdefault(_key(kind, shrink), len(members))
            for _, members in groups[:room]:
                self._new_group(members)

    def _start_in_bubbles(self) -> None:
        """Give what waits of the search to idle GPUs and to bubbles, so that all end an epoch at the same time."""
        places = list(self.seen.bubbles)
        while places:
            waiting = {key: run for key, run in self._searched().items() if run.state is RunState.WAITING}
            if not waiting:
                return
            bucket = self._fullest(waiting)
            kind, shrink = self._kind(bucket[0]), self.study.shrink
            bucket = [key for key in bucket if self._kind(key) == kind]
            time, memory = self.seen.times.get((kind, shrink)), self.seen.memory.get((kind, shrink))
            if time is None or memory is None:  # a GPU of its own measures them
                return
            # Groups that come to the rung take those along that wait there.
            coming = [self.state.groups[id] for id in self._coming_alone(kind, self.state.runs[bucket[0]].epoch)]
            others = sum(len(group.runs) for group in coming) // self.study.algorithm.reduction if coming else 0
            idle = [Place()] * max(self.idle - self._open_groups(), 0)
            alone = [Place()] * len(coming)
            count, limit = len(bucket) + others, self._most(kind, shrink)
            early = [replace(place, rate=EARLY * place.rate) for place in places]
            sizes = by_rate(count, [*early, *idle, *alone], time, memory, limit)[: len(places) + len(idle)]
            slowest_s = max(
                (time.of(size) / place.rate for place, size in zip(places, sizes, strict=False) if size),
                default=0.0,
            )
            epoch = self.state.runs[bucket[0]].epoch
            if not slowest_s or slowest_s * (self._next_stop(epoch) - epoch) > self._alone_s(time):
                return  # GPUs of its own would have done all of the search before these were back
            for place, size in zip([*places, *idle], sizes, strict=True):
                if here := bucket[:size]:
                    self._new_group(here, place.name)
                    bucket = bucket[size:]
            if coming:
                return
            places = [place for place, size in zip(places, sizes, strict=False) if not size]

    def _next_stop(self, epoch: int) -> int:
        """Return the rung after an epoch, or the end."""
        return next((rung for rung in self.rungs if rung > epoch), self.until)

    def _alone_s(self, time: EpochTime) -> float:
        """Return how long what is left of the search takes on the study's own GPUs, as trials stop at rungs."""
        left, longest = 0.0, 0
        for run in self._searched().values():
            if run.open:
                longest = max(longest, run.until - run.epoch)
                epoch, part = run.epoch, 1.0
                while epoch < run.until:
                    after = self._next_stop(epoch)
                    left, epoch, part = left + part * (after - epoch), after, part / self.study.algorithm.reduction
        held = sum(g.state is GroupState.RUNNING and not g.place for g in self.state.groups.values())
        return time.alone_s * longest + time.each_s * left / max(self.idle + held, 1)

    def _partly(self, bucket: list[int]) -> bool:
        """Return whether these have left thinned groups, and others will come to their rung."""
        first = self.state.runs[bucket[0]]
        if not first.decided or first.decided != first.epoch:
            return False
        kind = self._kind(bucket[0])
        if first.shrink != self.study.shrink:
            return False
        if len(bucket) >= FULL:  # those that come from bubbles fill no GPU sooner than these do
            return self._uses_bubbles() and bool(self._coming_alone(kind, first.epoch))
        return bool(self._coming(kind, first.epoch))

    def _uses_bubbles(self) -> bool:
        return bool(self.seen.bubbles) or any(
            group.place and not group.state.over for group in self.state.groups.values()
        )

    def _coming_alone(self, kind: Kind, rung: int) -> list[str]:
        """Return the groups that will come to a rung on GPUs of their own."""
        return [id for id in self._coming(kind, rung) if not self.state.groups[id].place]

    def _fullest(self, waiting: Mapping[int, Run]) -> list[int]:
        """Return the runs that start next: of one width and epoch.

        Promoted ones come first. Then come those that have passed the most rungs, if there are enough of them to
        fill a GPU, or nothing else waits; then new ones.
        """
        buckets: dict[tuple[int, int, int], list[int]] = {}
        for key, run in sorted(waiting.items()):
            buckets.setdefault((run.shrink, run.epoch, run.until), []).append(key)
        order = sorted(buckets, key=lambda one: (one[0], -one[1], one[2]))
        full = [one for one in order if one[0] != self.study.shrink or len(buckets[one]) >= FULL]
        return buckets[(full or [one for one in order if one[1] == 0] or order)[0]]

    def _new_group(self, keys: Iterable[int], place: str = "") -> None:
        state = self.state
        keys = sorted(keys)
        runs = [state.runs[key] for key in keys]
        shrink = runs[0].shrink
        id = f"{self.study.name}-{len(state.groups)}"
        target = shrink == 1 and self.study.shrink > 1
        origins = {key: run.origin for key, run in zip(keys, runs, strict=True) if run.origin is not None}
        weight = self._weight(runs)
        state.groups[id] = Group(
            runs=list(keys),
            first_runs=list(keys),
            shrink=shrink,
            until=max(run.until for run in runs),
            fused=len(keys) > 1,
            elastic=target,
            weight=weight,
            origins=origins,
            place=place,
        )
        for run in runs:
            run.state, run.group = RunState.IN_GROUP, id

    def _weight(self, runs: Iterable[Run]) -> float:
        """Return the part of a usual job's worth: by the rungs behind a group, and all of it for targets."""
        first = next(iter(runs))
        if first.shrink != self.study.shrink:
            return 1.0 if first.shrink == 1 else 0.75
        return 0.25 + min(sum(first.epoch >= rung for rung in self.rungs) / 8, 0.375)

    def _merge_groups(self) -> None:
        """Let small groups at the same epoch become one, where other people's jobs wait for a GPU."""
        if not self.merge or not self.seen.others_wait or self.idle:
            return
        sizes, at = {}, {}
        for id, group in self.state.groups.items():
            epochs = {self.state.runs[key].epoch for key in group.runs}
            if group.state is not GroupState.RUNNING or group.elastic or group.place or len(epochs) != 1:
                continue
            if 0 < (epoch := epochs.pop()) < group.until - 1:
                sizes[id] = len(group.runs)
                at[id] = (_place(self._kind(group.runs[0]), group), epoch)
        most = {place: min(self._most(place[:-2], int(str(place[-1][1]))), FULL) for place, _ in at.values()}
        for ids in merges(sizes, at, most):
            keys = [key for id in ids for key in self.state.groups[id].runs]
            for key in keys:
                run = self.state.runs[key]
                run.origin = Origin(run.group, key, run.epoch)
                self._leave(key, RunState.WAITING)
            self._new_group(keys)

    def _split_groups(self) -> None:
        """Let idle GPUs take part of the largest groups, where that is worth it. A target takes them first."""
        free = self.idle - self._open_groups()
        if any(group.elastic and group.state is GroupState.RUNNING for group in self.state.groups.values()):
            return
        if (
            free <= 0
            or self.seen.others_wait
            or any(run.state is RunState.WAITING for run in self.state.runs.values())
        ):
            return
        sizes, least = {}, 1
        for id, group in self.state.groups.items():
            if group.state is not GroupState.RUNNING or group.cancelled or len(group.runs) < 2:
                continue
            epoch = min(self.state.runs[key].epoch for key in group.runs)
            time = self.seen.times.get((self._kind(group.runs[0]), group.shrink))
            left = group.until - epoch
            if time is None:
                least = SPLIT_LEAST
            elif not worth_splitting(time, len(group.runs), left, self.seen.restart_s):
                continue
            if epoch and left > 1:  # there is a checkpoint to start from
                sizes[id] = len(group.runs)
        for id, parts in splits(sizes, free, least).items():
            for part in split(self.state.groups[id].runs, parts)[1:]:
                for key in part:
                    run = self.state.runs[key]
                    run.origin = Origin(id, key, run.epoch)
                    self._leave(key, RunState.WAITING)
                self._new_group(part)

    # The end

    def _past_deadline(self) -> bool:
        return self.study.deadline is not None and self._elapsed_s() >= self.study.deadline

    def _look_at_deadline(self) -> None:
        """Warn where an epoch of the target is longer than the deadline; end where no trial can report by it."""
        training = {id: one for id, one in self.state.groups.items() if not one.state.over and not one.cancelled}
        times = {
            id: one.epoch_s for id in training if (one := self.seen.groups.get(id)) and one.epoch_s is not None
        }
        of_target = [
            seconds for id, seconds in times.items() if training[id].shrink == 1 and len(training[id].runs) == 1
        ]
        if of_target and not self.state.warning:
            self.state.warning = deadline_problem(self.study, min(of_target))
        if len(times) < len(training) or any(run.epoch for run in self.state.runs.values()):
            return
        found = [deadline_problem(self.study, seconds, _called(training[id])) for id, seconds in times.items()]
        if found and all(found):
            self._finish_without(f"{found[0]}; a longer deadline is accepted, or a smaller `fuse`")

    def _leave_time_for_target(self) -> None:
        """End the search where the deadline leaves just time for a whole training of the target.

        A target that takes longer than half of the time begins at its half, as does one whose time is not known.
        """
        study, state = self.study, self.state
        if study.deadline is None or study.shrink == 1 or state.stage >= 0 or not state.runs:
            return
        if not any(run.last is not None for run in self._searched().values()):
            return
        needs = [time.of(1) * self.epochs for (_, shrink), time in self.seen.times.items() if shrink == 1]
        if not needs and self._targets():
            return
        latest = study.deadline - TIME_TO_SPARE * (max(needs, default=math.inf) + self.seen.restart_s)
        if self._elapsed_s() < max(latest, study.deadline / 2):
            return
        for key, run in self._searched().items():
            if run.state is RunState.IN_GROUP:
                self._leave(key, RunState.STOPPED)
            elif run.open:
                run.state = RunState.STOPPED
        state.stage, state.all_proposed = len(study.ladder) - 2, True

    def _finish_early(self) -> None:
        """Choose at the deadline: the best target so far, also one that trains; else the best trial."""
        for pool in (self._targets(), self._searched()):
            metrics = {key: run.last for key, run in pool.items() if run.last is not None}
            if best := promoted(metrics, 1, self.mode):
                self._choose(best[0])
                return
        self._finish_without(
            f"deadline: no trial has reported {self.study.metric} within {self.study.deadline:g} s"
        )

    def _finish(self) -> None:
        for pool in (self._targets(), self._searched()):
            metrics = {key: run.last for key, run in pool.items() if self._counts(run)}
            if best := promoted(metrics, 1, self.mode):
                self._choose(best[0])
                return
        told = next((run.message for run in self.state.runs.values() if run.message), "")
        self._finish_without(f"no trial has reported a finite {self.study.metric}" + (f": {told}" if told else ""))

    def _choose(self, key: int) -> None:
        run = self.state.runs[key]
        self.state.finished, self.state.chosen, self.state.chosen_metric = True, run.trial, run.last
        self._drop_open()

    def _finish_without(self, why: str) -> None:
        self.state.finished, self.state.why = True, why
        self._drop_open()

    def _drop_open(self) -> None:
        for key, run in self.state.runs.items():
            if run.state is RunState.IN_GROUP:
                self._leave(key, RunState.DROPPED)
            elif run.open:
                run.state = RunState.DROPPED

    # What is asked for

    def _asked(self) -> list[Action]:
        found: list[Action] = []
        for id, group in self.state.groups.items():
            one = self.seen.groups.get(id)
            if group.state.over:
                continue
            if group.cancelled:
                if one is not None and not one.state.over:
                    found.append(Cancel(id))
                elif one is None:
                    group.state = GroupState.CANCELLED  # nobody has heard of it
                continue
            if one is None:
                found.append(self._submit(id, group))
                continue
            if set(one.runs) - set(group.runs):
                found.append(Keep(id, tuple(group.runs)))
            group.weight = self._weight([self.state.runs[key] for key in group.runs])
            if one.weight is not None and one.weight != group.weight:
                found.append(Weigh(id, group.weight))
        if self.state.finished:
            values = None if self.state.chosen is None else self.state.trials[self.state.chosen]
            found.append(Finish(values, self.state.chosen_metric, self.state.chosen, self.state.why))
        return found

    def _submit(self, id: str, group: Group) -> Submit:
        return Submit(
            group=id,
            runs={key: self.state.trials[self.state.runs[key].trial] for key in group.first_runs},
            shrink=group.shrink,
            until=group.until,
            epochs=self.epochs,
            weight=group.weight,
            origins=group.origins,
            fused=group.fused,
            elastic=group.elastic,
            place=group.place,
        )


def _place(kind: Kind, group: Group) -> Kind:
    """Return a kind that also tells when the group ends, and its width."""
    return (*kind, ("until", group.until), ("shrink", group.shrink))


def _called(group: Group) -> str:
    """Return what sentences call a group."""
    count = len(group.runs)
    trials = "a trial" if count == 1 else f"a group of {count} trials"
    return trials if group.shrink == 1 else f"{trials} at 1/{group.shrink} of the width"


def _key(kind: Kind, shrink: int) -> str:
    return f"{kind!r}/{shrink}"
