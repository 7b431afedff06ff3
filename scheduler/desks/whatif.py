"""Answers what would be: with another job, other nodes, or another policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.cluster import Cluster
from ...core.deadline_answer import NOT_PLANNED, End, Planned, answer_of
from ...core.deadline_answer import Answer as AnswerCode
from ...core.deadline_view import deadline_view
from ...core.errors import WhatIfError
from ...core.identity import Reader
from ...core.job import JobSpec
from ...core.node_changes import node_changes
from ...core.rewards import OnMissed
from ...core.schemas import DeadlineView, WhatIfView
from ...core.settings import Settings
from ...core.team_rules import completed
from ...core.teams import Teams
from ...core.wording import in_words
from ...forecasts.answers import Forecast, Gives, JobForecast
from ...forecasts.questions import Answer, Change
from ...forecasts.state import LiveJob, LiveState
from ...policies.catalogue import live_policy
from ..access.others_jobs import OthersJobs
from ..changes.submissions import accepted
from ..cycle import SchedulingCycle
from ..forecasts.asked_changes import come_and_go, without
from ..forecasts.asked_teams import of_file, otherwise
from ..forecasts.asker import Asked, Asker
from ..forecasts.forecaster import Forecaster
from ..forecasts.giving_view import sentences
from ..forecasts.live_state import measuring_s
from ..forecasts.new_job import new_job
from ..forecasts.whatif_view import told_to, whatif_view
from ..nodes.node_source import NodeSource
from ..store.store import Store
from .moments import Moments

MOST_JOBS = 50


class WhatIfDesk:
    """Takes questions, and gives answers when they are there. It changes nothing."""

    def __init__(
        self,
        store: Store,
        cycle: SchedulingCycle,
        nodes: NodeSource,
        settings: Settings,
        moments: Moments,
        forecaster: Forecaster,
        asker: Asker,
    ) -> None:
        self._store, self._cycle, self._nodes, self._settings = store, cycle, nodes, settings
        self._moments, self._forecaster, self._asker = moments, forecaster, asker
        self._others = OthersJobs(store)

    def whatif(self, wanted: Mapping[str, Any], asker: str, reader: Reader | None = None) -> str:
        """Begin to work out an answer, and return the number of the question.

        Args:
            wanted: `submit` (each a `spec` as JSON text and a `script_key`), `like` (ids of jobs that would be
                submitted once more), `nodes`, `without`, `policy`, `policy_options`, `team`, `teams` (a file).
            asker: who asks, whose the jobs would be.
            reader: only jobs that this user may read are told; None: all.

        Raises: WhatIfError, in one sentence; KeyError for an unknown job; JobLimitError and
        pydantic.ValidationError for a bad spec.
        """
        state = self._forecaster.state()
        if state is None:
            raise WhatIfError("whatif: no round was planned yet; ask again after the first one")
        change, names, notes = self._change(state, wanted, asker)
        teams = self._cycle.teams.now
        if change.teams is not None:
            state = replace(state, teams=teams)
        of_whom = {job.id: (job.owner, job.spec.team or "") for job in (*state.jobs, *change.submit)}
        pools = {job.id: job.spec.pool or "" for job in (*state.jobs, *change.submit)}
        names |= {job.id: job.spec.name for job in state.jobs}
        prices = dict(self._cycle.mean_prices.now) | ({} if teams is None else dict(teams.prices))

        def shown(found: Answer) -> WhatIfView:
            answer, stretched = found.whatif, self._forecaster.stretched
            assert answer is not None
            told = replace(answer, before=stretched(answer.before), after=stretched(answer.after))
            new = [job.id for job in change.submit]
            since = self._changed_since(state, reader)
            view = whatif_view(told, names, of_whom, pools, new, prices, [*notes, *since])
            return view if reader is None else told_to(view, reader)

        return self._asker.begin(Asked(state, self._forecaster.past(), change), shown)

    def deadline(self, wanted: Mapping[str, Any], asker: str, reader: Reader | None = None) -> str:
        """Begin to work out whether a deadline will hold and what would have to give, and return the number.

        Args:
            wanted: `job` (an id), or `submit` (a `spec` as JSON text and a `script_key`).
            asker, reader: as for `whatif`.

        Raises: as `whatif`.
        """
        if (state := self._forecaster.state()) is None:
            raise WhatIfError("whatif: no round was planned yet; ask again after the first one")
        change, before, planned = Change(), None, NOT_PLANNED
        if job_id := wanted.get("job"):
            job, before, planned = self._due_job(state, str(job_id))
        else:
            specs = self._specs({"submit": [wanted["submit"]]}, asker, self._cycle.teams.now)
            job = self._new(state, *specs[0], asker, 0)
            change = Change(submit=(job,))
        rewards = job.rewards
        if rewards is None:
            raise WhatIfError(
                f"job: {job_id or job.spec.name} has no deadline; `deadline` of its job file says one"
            )

        def shown(found: Answer) -> DeadlineView:
            gives = found.gives
            assert gives is not None
            told = answer_of(
                rewards,
                job.submitted_s,
                gives.made_s,
                end=self._stretched(gives),
                planned=planned,
                is_known=job.expected.known,
                known_s=job.ready_s if job.ready_s > gives.made_s else None,
                before=before,
                on_missed=job.spec.on_missed or OnMissed.BEST_EFFORT,
            )
            if told is None:
                raise WhatIfError(f"whatif: the end of {job.spec.name} is not known: {gives.why_no_end}")
            said = sentences(gives, told, job.submitted_s, lambda id: self._is_readable(id, reader))
            return DeadlineView(**{**deadline_view(told), "gives": said})

        return self._asker.begin(Asked(state, self._forecaster.past(), change, job.id), shown)

    def _due_job(self, state: LiveState, job_id: str) -> tuple[LiveJob, AnswerCode | None, Planned]:
        """Return a job of the state, what it was told of its deadline, and what is planned for it."""
        record, last = self._store.get(job_id), self._cycle.last_round
        job = next((one for one in state.jobs if one.id == job_id), None)
        if job is None:
            raise WhatIfError(f"job: {job_id} takes no part in rounds now, so that nobody can say when it ends")
        planned = NOT_PLANNED if last is None else last.plan.deadlines.get(job_id, NOT_PLANNED)
        return job, record.answer, planned

    def _stretched(self, gives: Gives) -> End | None:
        """Return when a job ends, with a band as wide as earlier ones should have been."""
        made = Forecast(gives.made_s, 0, 1, 0.0, {"": JobForecast(end=gives.end)})
        found = self._forecaster.stretched(made).jobs[""].end
        return None if found is None else End(found.at_s, found.low_s, found.high_s)

    def _is_readable(self, job_id: str, reader: Reader | None) -> bool:
        job = self._store.find(job_id)
        return reader is None or (job is not None and reader.may_read(job.owner, job.spec.team or ""))

    def whatif_answer(self, number: str) -> WhatIfView | DeadlineView | None:
        """Return what `whatif` or `deadline` have worked out; None: it is worked out still.

        Raises: KeyError; WhatIfError.
        """
        found = self._asker.answer(number)
        return None if found is None else self._moments.shown(found)

    def _change(
        self, state: LiveState, wanted: Mapping[str, Any], asker: str
    ) -> tuple[Change, dict[str, str], list[str]]:
        """Return what would be otherwise, the names of new jobs, and sentences on what was assumed."""
        file = wanted.get("teams")
        told = any(wanted.get(name) for name in ("submit", "like", "nodes", "without", "policy", "team"))
        if not told and file is None:
            raise WhatIfError("whatif: nothing would be otherwise; give a job, nodes, or a policy")
        machines = self._nodes.snapshot.names
        changes = node_changes(str(wanted["nodes"])) if wanted.get("nodes") else ()
        come, go = come_and_go(state, changes, without(state, list(wanted.get("without") or ()), machines))
        if len(go) >= len(state.nodes) + len(come):
            raise WhatIfError("whatif: no node would be left")
        notes = self._unmeasured(state, sorted({node.gpu_type for node in come}))
        jobs, names = list[LiveJob](), dict[str, str]()
        policy = wanted.get("policy") or None
        options = dict(wanted.get("policy_options") or {})
        if policy is not None:
            try:
                live_policy(str(policy), **options)
            except (ValueError, TypeError) as error:
                raise WhatIfError(in_words(error)) from None
        nodes = Cluster((*(node for node in state.nodes if node.id not in go), *come))
        if file is not None and wanted.get("team"):
            raise WhatIfError("teams: a whole file is given, and team changes a part of it; give one of them")
        teams = of_file(file, nodes) if file is not None else None
        if wanted.get("team"):
            teams = otherwise(self._cycle.teams.now, wanted["team"], nodes)
        for spec, key in self._specs(wanted, asker, teams or self._cycle.teams.now):
            job = self._new(state, spec, key, asker, len(jobs))
            jobs.append(job)
            names[job.id] = spec.name
            notes += _assumed(job, spec.name)
        return Change(tuple(jobs), come, go, policy, teams, options), names, notes

    def _specs(self, wanted: Mapping[str, Any], asker: str, teams: Teams | None) -> Sequence[tuple[JobSpec, str]]:
        """Return the specs of jobs that would be submitted, each with its script's key; arrays as their jobs."""
        found = list[tuple[JobSpec, str]]()
        for one in wanted.get("submit") or ():
            spec = completed(accepted(one["spec"], None), asker, teams).spec
            each = [spec] if spec.array is None else [job for _, job in spec.elements()]
            found += [(job, str(one.get("script_key") or "")) for job in each]
        for job_id in wanted.get("like") or ():
            job = self._store.get(job_id)
            found.append((job.spec, job.script_key))
        if len(found) > MOST_JOBS:
            raise WhatIfError(f"submit: {len(found)} jobs are too many; at most {MOST_JOBS} are accepted")
        return found

    def _new(self, state: LiveState, spec: JobSpec, key: str, asker: str, number: int) -> LiveJob:
        known = self._store.recall(key, asker) if key else None
        if known is None and spec.fingerprint:
            known = self._store.recall(spec.fingerprint, asker)
        records = tuple(self._store.unretired.values())
        cluster = Cluster(state.nodes)
        lengths = self._cycle.learning.model
        return new_job(
            f"~{number}-{spec.name}", spec, asker, key, known, lengths, cluster, state.now_s, measuring_s(records)
        )

    def _unmeasured(self, state: LiveState, gpu_types: Sequence[str]) -> list[str]:
        """Return a sentence for each new GPU type on which no job was measured."""
        known = {t for job in state.jobs if job.model is not None for t in job.model.throughput}
        missing = [t for t in gpu_types if t not in known and t not in {node.gpu_type for node in state.nodes}]
        return [f"no job was measured on {t}, so none uses it here" for t in missing]

    def _changed_since(self, before: LiveState, reader: Reader | None) -> list[str]:
        """Return sentences on what has changed of the cluster since a state.

        Args:
            reader: without names of jobs that this user may not read.
        """
        now = self._forecaster.state()
        if now is None:
            return []
        found = []
        if {node.id for node in now.nodes} != {node.id for node in before.nodes}:
            found.append("the cluster's nodes have changed meanwhile; ask again")
        if (now.policy, now.options) != (before.policy, before.options):
            found.append("the policy has changed meanwhile; ask again")
        gone = {job.id for job in before.jobs} - {job.id for job in now.jobs}
        ended = sorted(job.id for job in before.jobs if job.id in gone and "/" not in job.id)
        if ended:
            found.append(f"{', '.join(ended[:5])} {'has' if len(ended) == 1 else 'have'} ended meanwhile")
        return found if reader is None else list(self._others.hidden(found, reader))


def _assumed(job: LiveJob, name: str) -> list[str]:
    if job.mean_s is not None:
        return []
    return [f"nothing is known of how long {name} takes; it is taken to be like a job of the last weeks"]
