"""A scheduling cycle without Ray: with stub nodes, executors and policy, and a clock moved by hand.

A story is one command a line (`World.tell`). Lines that begin with "?" are checked:

    submit a                    ? a profiling               its phase
    wish a t4-000:2             ? a because waiting          its reason begins so
    go                          ? sent assign a 2xt4         commands since the last check, in order, " | " between
    measured a t4               ? did a admitted, profiling  kinds of its events since its submission, in order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from coadapt.core.cluster import Cluster
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.reports import JobInfo, MeasuredAt, Progress, Report, StepRow
from coadapt.core.schemas import Prediction
from coadapt.core.settings import Settings
from coadapt.core.sleeping import SleepingNode
from coadapt.core.slot import Slot
from coadapt.core.teams import Priority
from coadapt.estimators.measurements import Measurements
from coadapt.executor.executor_job import ExecutorStatus
from coadapt.executor.protocol.job_events import (
    Checkpointed,
    Failing,
    JobFailed,
    JobFinished,
    ProfileFinished,
    Released,
    Reported,
    Running,
    WorkerLost,
)
from coadapt.policies.contract.round import Plan, Planner, Round
from coadapt.policies.contract.traits import ORDINARY, PolicyTraits
from coadapt.scheduler.changes import standing_verbs
from coadapt.scheduler.changes.verbs import Verb, pause, requeue, resume, resume_changed
from coadapt.scheduler.cycle import CycleResult, SchedulingCycle
from coadapt.scheduler.forecasts.deadline_answers import DeadlineAnswers
from coadapt.scheduler.jobs.record import ChangedFile, JobRecord
from coadapt.scheduler.nodes.closing_nodes import ClosingNodes
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.observers.hooks import Change, CycleHook, RoundDone
from coadapt.scheduler.store.store import Store

from tests.support.rounds import cluster

# A job "a" that trains on two t4: how most stories begin.
RUNS = """
submit a unprofiled
wish a t4-000:2
go
? sent assign a 2xt4
runs a
? a running
"""


@dataclass
class ManualClock:
    """Seconds that only `forward` moves; `set_s`: by how much somebody has set the machine's clock."""

    now_s: float = 1_000_000.0
    set_s: float = 0.0

    def wall_s(self) -> float:
        return self.now_s + self.set_s

    def steady_s(self) -> float:
        return self.now_s

    def monotonic_s(self) -> float:
        return self.now_s - 900_000.0

    def forward(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class StubNodes:
    snapshot: NodesSnapshot


def nodes_of(
    where: Cluster,
    draining: frozenset[str] = frozenset(),
    leases: Mapping[str, str] | None = None,
    asleep: Mapping[str, bool] | None = None,
) -> NodesSnapshot:
    """Return nodes that are alive and leased. Draining ones take no part in rounds.

    `leases`: lease ids by node, where they are not the usual ones.
    `asleep`: nodes that sleep, and whether each is on its way back.
    """
    asleep = asleep or {}
    ids = [node.id for node in where.nodes if node.id not in asleep]
    return NodesSnapshot(
        cluster=Cluster(tuple(node for node in where.nodes if node.id in ids and node.id not in draining)),
        leases={id: (leases or {}).get(id, f"lease-{id}") for id in ids},
        alive=frozenset(ids),
        draining=draining,
        names={id: f"machine-{id}" for id in ids},
        ready=True,
        machines={node.id: node.machine_name for node in where.nodes if node.id in ids},
        asleep=tuple(SleepingNode(n, asleep[n.id]) for n in where.nodes if n.id in asleep),
    )


@dataclass
class StubExecutors:
    """Notes every command; those of `broken` jobs raise.

    `answering`: job id -> last sequence it has seen. `left_over`: ids of all jobs that have an executor.
    """

    sent: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    answering: dict[str, int | None] = field(default_factory=dict)
    left_over: set[str] = field(default_factory=set)

    def _note(self, job_id: str, text: str) -> None:
        if job_id in self.broken:
            raise RuntimeError("no way to it")
        self.sent.append(text)

    def assign(self, job: JobRecord, slots: Sequence[Slot], sequence: int) -> None:
        gpus = f"{sum(slot.gpus for slot in slots)}x{slots[0].gpu_type}" if slots else "nothing"
        self._note(job.id, f"assign {short(job.id)} {gpus}")

    def profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._note(job.id, f"profile {short(job.id)} {slot.gpu_type}")

    def end_profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._note(job.id, f"end_profile {short(job.id)} {slot.gpu_type}")

    def save(self, job: JobRecord) -> None:
        self._note(job.id, f"save {short(job.id)}")

    def cancel(self, job: JobRecord) -> None:
        self._note(job.id, f"cancel {short(job.id)}")

    def give(self, job: JobRecord) -> None:
        self._note(job.id, f"give {short(job.id)}")

    def restart(self, job: JobRecord) -> None:
        self._note(job.id, f"restart {short(job.id)}")

    def retire(self, job: JobRecord) -> None:
        self._note(job.id, f"retire {short(job.id)}")

    def retire_others(self, jobs: Sequence[JobRecord]) -> None:
        for job_id in sorted(self.left_over - {job.id for job in jobs}):
            self._note(job_id, f"retire {short(job_id)}")

    def statuses(self, jobs: Sequence[JobRecord], timeout_s: float) -> Mapping[str, ExecutorStatus | None]:
        return {
            job.id: None if seen is None else ExecutorStatus("idle", seen)
            for job in jobs
            if short(job.id) in self.answering
            for seen in [self.answering[short(job.id)]]
        }


class WishingPolicy:
    """Gives each job what the story wants, and each profile run the first free GPUs of its type."""

    def __init__(self) -> None:
        self.wishes: dict[str, str] = {}
        self.raises = False
        self.rounds: list[Round] = []

    def plan(self, round: Round) -> Plan:
        self.rounds.append(round)
        if self.raises:
            raise RuntimeError("cannot plan")
        free = {node.id: node.gpus for node in round.cluster.nodes}
        placements: dict[str, Placement] = {}
        for view in sorted(round.jobs, key=lambda view: "/" in view.id):
            placement = self._wish(view.id, round.cluster)
            if "/" in view.id:
                (gpu_type,) = view.spec.resources.gpu_types or ()
                need = view.spec.resources.min_gpus
                here = next((n.id for n in round.cluster.of_type(gpu_type) if free[n.id] >= need), None)
                held = view.placement
                placement = held or (None if here is None else Placement(gpu_type, (NodeShare(here, need),)))
            if placement is not None:
                placements[view.id] = placement
                for share in placement.shares:
                    free[share.node_id] = free.get(share.node_id, 0) - share.gpus
        return Plan(placements)

    def _wish(self, view_id: str, where: Cluster) -> Placement | None:
        shares = [part.split(":") for part in self.wishes.get(short(view_id), "").split()]
        known = [NodeShare(node, int(gpus)) for node, gpus in shares if node in where.by_id]
        return Placement(where.by_id[known[0].node_id].gpu_type, tuple(known)) if known else None


class FaultyHook(CycleHook):
    """Raises in the callbacks that it is told to."""

    def __init__(self) -> None:
        self.raises = frozenset[str]()

    def changed(self, change: Change) -> None:
        self._maybe("changed")

    def planned(self, done: RoundDone) -> None:
        self._maybe("planned")

    def retired(self, job: JobRecord) -> None:
        self._maybe("retired")

    def _maybe(self, callback: str) -> None:
        if callback in self.raises:
            raise RuntimeError("a hook went wrong")


def short(job_id: str) -> str:
    """Return the name of a story's job: its id is "a-1"."""
    return job_id.rsplit("-", 1)[0]


def measured(*gpu_types: str, fingerprint: str = "net") -> Measurements:
    """Return measurements with step times on these GPU types."""
    found = Measurements().with_info(JobInfo(fingerprint, 32, 1000, 4096, adam_type=False))
    for gpu_type in gpu_types:
        found = found.with_rows(gpu_type, [StepRow(1, 1, size, 0, 0.01 * size, 0.0, 5) for size in (8, 16, 32)])
    return found


class World:
    """A cycle over a real store on disk, with stubs around it."""

    def __init__(
        self,
        folder: Path,
        nodes: str,
        *,
        strict: bool = True,
        planner: Planner | None = None,
        traits: PolicyTraits = ORDINARY,
        **settings: Any,
    ) -> None:
        """Begin a story. A `planner` decides instead of its wishes."""
        self.settings = Settings(state_dir=str(folder), **settings)
        self.clock, self.policy, self.executors, self.hook = (
            ManualClock(),
            WishingPolicy(),
            StubExecutors(),
            FaultyHook(),
        )
        self.planner, self.traits = planner or self.policy, traits
        self.all = cluster(nodes)
        self.nodes = StubNodes(nodes_of(self.all))
        self.strict, self.ids, self.last = strict, dict[str, str](), dict[str, int]()
        self.results: list[CycleResult] = []
        self.predicted: dict[str, Prediction] = {}  # by job id; `foretell` fills it
        self.open()

    def open(self) -> None:
        """Begin a new cycle over the store, as a starting service does."""
        self.store = Store(self.settings.store_path)
        answers = DeadlineAnswers(lambda: self.store.unretired.values(), self.predicted.get)
        self.closing = ClosingNodes(self.nodes, self.store, self.clock)
        self.cycle = SchedulingCycle(
            self.store,
            self.planner,
            self.closing,
            self.executors,
            self.clock,
            self.settings,
            hooks=[self.hook],
            answers=answers.news,
            strict=self.strict,
            traits=lambda: self.traits,
        )

    def job(self, name: str) -> JobRecord:
        return self.store.get(self.ids[name])

    def play(self, story: str) -> None:
        """Tell every line of a story."""
        for line in story.strip().splitlines():
            words = line.split("#")[0].split()
            if words and words[0] == "?":
                self.check(words[1:], line.strip())
            elif words:
                self.tell(words[0], words[1:])

    def tell(self, what: str, words: list[str]) -> None:
        """Tell one line of a story."""
        getattr(self, f"on_{what}")(*words)

    def check(self, words: list[str], line: str) -> None:
        first, rest = words[0], " ".join(words[1:])
        if first == "told":
            told = [str(event.data.get("text", "")) for event in self.store.cluster_events(50)]
            assert any(rest in text for text in told), f"{line}: {told}"
        elif first == "sent":
            sent, self.executors.sent[:] = " | ".join(self.executors.sent), []
            assert sent == rest, f"{line}: {sent}"
        elif first == "did":
            kinds = [event.kind for event in self.store.events(self.ids[words[1]])][1:]
            assert ", ".join(kinds) == " ".join(words[2:]), f"{line}: {kinds}"
        elif first == "rounds":
            assert self.cycle.rounds == int(rest), line
        elif words[1] == "because":
            assert self.job(first).state.reason.startswith(" ".join(words[2:])), self.job(first).state.reason
        elif words[1] == "held":
            held = sum(slot.gpus for slot in self.job(first).occupied)
            assert held == int(words[2]), f"{line}: {held}"
        elif words[1] == "knows":
            known = self.job(first).measurements
            assert " ".join(sorted(known.profiles if known else ())) == " ".join(words[2:]), line
        elif words[1] == "counts":
            assert getattr(self.job(first).state, words[2]) == int(words[3]), f"{line}: {self.job(first).state}"
        elif words[1] == "script":
            assert self.job(first).spec.script == words[2], line
        elif words[1] == "retired":
            assert self.job(first).retired, line
        elif words[1] == "said":
            texts = [str(event.data.get("text", "")) for event in self.store.events(self.ids[first])]
            assert any(" ".join(words[2:]) in text for text in texts), texts
        else:
            assert self.job(first).phase == rest, f"{line}: {self.job(first).state}"

    def on_foretell(self, name: str, minutes: str, half: str = "0") -> None:
        """Have a job's end foretold, in so many minutes from now and so many more or less."""
        at_s, half_s = self.clock.now_s + 60 * float(minutes), 60 * float(half)
        self.predicted[self.ids[name]] = Prediction(
            start_s=None, start_low_s=None, start_high_s=None, end_s=at_s, end_low_s=at_s - half_s,
            end_high_s=at_s + half_s, why_no_start="", why_no_end="", predicted_s=self.clock.now_s, worlds=3,
        )  # fmt: skip

    # --- what users, time and nodes do ----------------------------------------------------------------------

    def on_submit(self, name: str, *options: str) -> None:
        """Do `submit a types=t4 same=key fingerprint=f unprofiled rigid=2 kept most_failures=0 restarts=never`.

        Also `limit=1h`, `deadline=1h`, `on_missed=cancel`, `retries=2`, `target=0.9` of accuracy, and `ok=a` or
        `any=a` of jobs that it starts after.
        """
        given = dict(option.partition("=")[::2] for option in options)
        resources: dict[str, Any] = {"max_gpus": 8}
        if "types" in given:
            resources["gpu_types"] = given["types"].split(",")
        if "per_replica" in given:
            resources["gpus_per_replica"] = int(given["per_replica"])
        if "rigid" in given:
            resources |= {"gpus": int(given["rigid"])}
        spec = JobSpec.model_validate(
            {
                "name": name,
                "script": "train.py",
                "resources": resources,
                "training": {
                    "adaptivity": "rigid" if "rigid" in given else "adaptive",
                    "target": {"metric": "accuracy", "at_least": float(given["target"])}
                    if "target" in given
                    else None,
                },
                "preemptible": "kept" not in given,
                "profile": "unprofiled" not in given,
                "fingerprint": given.get("fingerprint"),
                "max_failures": int(given.get("most_failures", 3)),
                "restart_policy": given.get("restarts"),
                "time_limit": given.get("limit"),
                "deadline": given.get("deadline"),
                "on_missed": given.get("on_missed"),
                "after": {field: [self.ids[given[field]]] for field in ("ok", "any") if field in given} or None,
                "retry": {"times": int(given["retries"]), "wait": 60} if "retries" in given else None,
                "reservation": {"gpu_type": given["reserved"], "gpus": 1} if "reserved" in given else None,
            }
        )
        key = given.get("key", name)
        self.ids[name] = self.cycle.orders.submit(spec, idempotency_key=key, script_key=given.get("same", "")).id

    def on_go(self, cycles: str = "3") -> None:
        """Run cycles a second apart, so that an early round is due in the second one at the latest."""
        for _ in range(int(cycles)):
            self.closing.tick(self.cycle.in_use)
            self.results.append(self.cycle.step())
            self.clock.forward(1.0)

    def on_step(self) -> None:
        self.results.append(self.cycle.step())

    def on_after(self, seconds: str) -> None:
        self.clock.forward(float(seconds))

    def on_wish(self, name: str, *shares: str) -> None:
        self.policy.wishes[name] = " ".join(shares)
        self.cycle.ask_round()

    def on_cancel(self, name: str, *how: str) -> None:
        """Do `cancel a` at once, or `cancel a saving`."""
        self.cycle.orders.cancel(self.ids[name], save="saving" in how)

    def on_stand(self, name: str, verb: str, *words: str) -> None:
        """Do `stand a hold`, `release`, `bump`, `priority high` or `extend 3600`."""
        if verb == "priority":
            do: Verb = partial(standing_verbs.set_priority, priority=Priority(words[0]))
        elif verb == "extend":
            do = partial(standing_verbs.extend, by_s=float(words[0]))
        else:
            do = getattr(standing_verbs, verb)
        self.cycle.orders.do(self.ids[name], do, keeps=True)

    def on_pause(self, name: str) -> None:
        self.cycle.orders.do(self.ids[name], pause)

    def on_resume(self, name: str) -> None:
        self.cycle.orders.do(self.ids[name], resume)

    def on_change(self, name: str, script: str) -> None:
        """Resume a job with a job file that has another script."""
        file = ChangedFile(self.job(name).spec.model_copy(update={"script": script}), None, "")
        self.cycle.orders.do(self.ids[name], partial(resume_changed, file=file))

    def on_requeue(self, name: str) -> None:
        self.cycle.orders.do(self.ids[name], requeue)

    def on_nodes(self, *text: str) -> None:
        self.all = cluster(" ".join(text))
        self.nodes.snapshot = nodes_of(self.all)

    def on_drain(self, *nodes: str) -> None:
        self.nodes.snapshot = nodes_of(self.all, frozenset(nodes))

    def on_order(self, verb: str, node: str, deadline_s: str = "") -> None:
        """Do `order cordon t4-000`, `order drain t4-000 30` or `order uncordon t4-000` as ann."""
        if verb == "drain":
            self.closing.drain(node, float(deadline_s) if deadline_s else None, "ann")
        else:
            getattr(self.closing, verb)(node, "ann")

    def on_notice(self, node: str, left_s: str) -> None:
        """Let a node's cloud tell that it goes away in so many seconds."""
        self.closing.take_notice(node, "spot notice of aws", float(left_s))

    def on_withdrawn(self, node: str) -> None:
        self.closing.no_notice(node)

    def on_sleep(self, *nodes: str) -> None:
        """Do `sleep a100-000 t4-000=waking`: these nodes sleep, or are on their way back; all others are awake."""
        asleep = {word.partition("=")[0]: word.endswith("=waking") for word in nodes}
        self.nodes.snapshot = nodes_of(self.all, asleep=asleep)

    def on_unready(self) -> None:
        self.nodes.snapshot = NodesSnapshot()

    def on_reopen(self, *answering: str) -> None:
        """Begin a new cycle on the store.

        `a`: its executor answers. `a=0`: it has seen commands up to 0. `a=-`: it is silent.
        """
        self.executors.answering = {}
        for word in answering:
            name, _, seen = word.partition("=")
            self.executors.answering[name] = None if seen == "-" else int(seen or self.job(name).sequence)
        self.store.close()
        self.open()
        self.cycle.reattach()

    def on_break(self, what: str, *callbacks: str) -> None:
        """Do `break policy`, `break a` (the job's executor) or `break hook changed` (by default all callbacks)."""
        if what == "policy":
            self.policy.raises = True
        elif what == "hook":
            self.hook.raises = frozenset(callbacks or ("changed", "planned", "retired"))
        else:
            self.executors.broken.add(self.ids[what])

    def on_mend(self, what: str) -> None:
        if what == "policy":
            self.policy.raises = False
        else:
            self.executors.broken.discard(self.ids[what])

    # --- what executors say -----------------------------------------------------------------------------------

    def on_measured(self, name: str, *gpu_types: str) -> None:
        """End the profile runs on these types well, one after another. They leave their GPUs."""
        for gpu_type in gpu_types:
            known = set((self.job(name).measurements or Measurements()).profiles)
            self._end_run(name, gpu_type, ok=True, measurements=measured(*sorted(known | {gpu_type})))

    def on_failed(self, name: str, gpu_type: str, *reason: str) -> None:
        self._end_run(name, gpu_type, ok=False, reason=" ".join(reason) or "no")

    def on_fault(self, name: str, gpu_type: str) -> None:
        trace = 'File "/x/train.py", line 7\nValueError: no'
        self._end_run(name, gpu_type, ok=False, reason="ValueError: no", fault=True, traceback=trace)

    def on_lostrun(self, name: str, gpu_type: str) -> None:
        self._end_run(name, gpu_type, ok=False, reason="lost", lost=True)

    def _end_run(self, name: str, gpu_type: str, **outcome: Any) -> None:
        run = self.job(name).profile(gpu_type)
        assert run is not None
        assert run.slot is not None
        slot = run.slot
        self._say(name, ProfileFinished(gpu_type, sequence=run.sequence, **outcome))
        self._say(name, Released(self.job(name).sequence, (slot,)))

    def on_runs(self, name: str, *flags: str) -> None:
        """Let the job train on what it shall have, after it has left everything else."""
        job = self.job(name)
        pause_s = 2.0 if job.state.started_s is not None else None
        self._say(
            name, Running(job.sequence, job.target, warm=False, pause_s=pause_s, recovered="recovered" in flags)
        )
        self.on_left(name)

    def on_left(self, name: str, *saved: str) -> None:
        """Let the job leave the GPUs that it shall not have; `left a 40`: it has saved at that step."""
        job = self.job(name)
        if gone := tuple(sorted(set(job.held) - set(job.target))):
            self._say(name, Released(job.sequence, gone, saved_step=int(saved[0]) if saved else None))

    def on_leftrun(self, name: str, gpu_type: str) -> None:
        run = self.job(name).profile(gpu_type)
        assert run is not None
        assert run.slot is not None
        self._say(name, Released(self.job(name).sequence, (run.slot,)))

    def on_gaveup(self, name: str, count: str) -> None:
        job = self.job(name)
        self._say(name, Released(job.sequence, job.target[-int(count) :]))

    def on_restarted(self, name: str) -> None:
        self._say(name, Released(0, (), everything=True))

    def on_report(self, name: str, *gpu_types: str) -> None:
        job = self.job(name)
        replicas = len(job.group)
        report = Report(
            1, "t4", 1, replicas, (), 1.0, 50.0, 64, 32, 0, 0.1, 1.5, Progress(2, 10, 0.2, 9, 640, 500.0)
        )
        self._say(name, Reported(report, replace(measured(*gpu_types), grad_sqr=1.0, grad_var=self.clock.now_s)))

    def on_evaluated(self, name: str, samples: str, accuracy: str) -> None:
        """Let the job report an accuracy that it has measured after so many samples."""
        progress = Progress(1, 10, float(samples) / 10_000, 9, int(samples), float(samples))
        at = {"accuracy": MeasuredAt(1, int(samples))}
        report = Report(
            1, "t4", 1, 1, (), 1.0, 50.0, 64, 32, 0, 0.1, 1.5, progress, {"accuracy": float(accuracy)}, None, at
        )
        self._say(name, Reported(report, None))

    def on_saved(self, name: str, steps: str, took_s: str) -> None:
        self._say(name, Checkpointed(int(steps), float(took_s)))

    def on_finish(self, name: str) -> None:
        self._say(name, JobFinished())

    def on_fail(self, name: str) -> None:
        self._say(name, JobFailed("ValueError: no", "Traceback", 1))

    def on_failing(self, name: str) -> None:
        self._say(name, Failing("ValueError: no", 1))

    def on_workerlost(self, name: str) -> None:
        self._say(name, WorkerLost("its process died"))

    def on_executorlost(self, name: str) -> None:
        self.cycle.executor_lost(self.ids[name], "its executor died")

    def _say(self, name: str, event: Any) -> None:
        self.cycle.on_event(self.ids[name], event, self.job(name).life)
