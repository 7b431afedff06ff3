"""The services of a simulated cluster: one host for all its pools, in one order of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...estimators.foretold import Foretold
from ...estimators.job_history import EndedJob, StartedJob, SubmittedJob
from ...policies.contract.arrivals import Arrivals
from ...policies.contract.foresight import Foresight
from ...policies.contract.round import Plan, Round
from ...scheduler.services.catalogue import make_services
from ...scheduler.services.contract import Advice
from ...scheduler.services.counting import counts_of
from ...scheduler.services.host import FitAtOnce, ServiceHost
from ..traces.workload import Workload


class SimulatedServices:
    """Services by name (name -> options). They see the calendar of the trace. Raise ValueError for bad options.

    `foretold`: how long jobs take, by job id, as it was foretold at their submission.
    """

    def __init__(self, options: Mapping[str, Mapping[str, Any]], began_s: float) -> None:
        self.host = ServiceHost(make_services(options), FitAtOnce())
        self.foretold: dict[str, Foretold] = {}
        self.teams: Mapping[str, str] = {}  # job id -> its team
        self._began_s = began_s

    def arrived(self, workload: Workload, job: int) -> None:
        """Take note of a job that was submitted."""
        self.host.submitted(self._facts(workload, job))

    def started(self, workload: Workload, job: int, at_s: float) -> None:
        """Take note of the first GPUs of a job, at a second of the trace."""
        facts = self._facts(workload, job)
        self.host.started(StartedJob(facts, max(self._began_s + at_s, facts.submitted_s)))

    def ended(self, workload: Workload, job: int, ended_s: float, trained_s: float) -> None:
        """Take note of the end of a job; times are seconds of the trace."""
        done = self._facts(workload, job)
        self.host.ended(EndedJob(done, max(self._began_s + ended_s, done.submitted_s), trained_s))

    def advance(self, now: float) -> None:
        """Let services see what has happened up to `now`, in order of time."""
        self.foretold |= self.host.advance(self._began_s + now)

    def arriving(self, now: float) -> Arrivals | None:
        """Return what is foretold to arrive; None: nothing is."""
        return self.host.arriving(self._began_s + now)

    def foresight(self, now: float) -> Foresight | None:
        """Return what teams will submit; None: nobody foretells it."""
        return self.host.foresight(self._began_s + now)

    def advise(self, round: Round, plan: Plan) -> Advice:
        """Tell services how many nodes have jobs. Return what they would do with machines after a round."""
        now = self._began_s + round.now
        self.host.counted(counts_of(now, round, plan))
        self.foretold |= self.host.advance(now)
        return self.host.advise(now, round, plan)

    @property
    def advise_machines(self) -> bool:
        """Whether some service says which machines wake and sleep."""
        return any(service.advises_machines for service in self.host.services.values())

    def _facts(self, workload: Workload, job: int) -> SubmittedJob:
        return SubmittedJob(
            id=workload.ids[job],
            owner=workload.users[job],
            name=workload.names[job],
            pool=workload.virtual_clusters[job],
            gpus=int(workload.gpus[job]),
            cpus=float(workload.cpus[job]),
            submitted_s=self._began_s + float(workload.submit_s[job]),
            team=self.teams.get(workload.ids[job], ""),
        )
