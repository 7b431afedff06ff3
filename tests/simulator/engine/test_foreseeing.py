"""`--foresees learned`: a simulated cluster learns when teams submit, and lends their idle GPUs meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.foreseeing import Foresees
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload

DAYS, HOUR_S, DAY_S = 9, 3600.0, 86_400.0
TEAMS = "teams:\n  vision: {guarantee: {gpu: 4}}\n  speech: {guarantee: {gpu: 4}}\n"
OPTIONS = {"stops_borrowers": False, "reservations": "bulk"}


def evenings() -> Workload:
    """Return short jobs of vision from 9 to 17 o'clock, and each evening two of speech that take 50 min."""
    jobs = list[TraceJob]()
    for day in range(DAYS):
        for n in range(48):
            at_s = DAY_S * day + HOUR_S * 9 + 600.0 * n
            jobs.append(
                TraceJob(f"v{day}-{n}", at_s, 4, 300.0, virtual_cluster="vision", user="ada", preemptible=False)
            )
        for n in range(2):
            at_s = DAY_S * day + HOUR_S * 19
            jobs.append(
                TraceJob(f"s{day}-{n}", at_s, 4, 3000.0, virtual_cluster="speech", user="eve", preemptible=False)
            )
    return Workload.of(jobs)


def run(folder: Path, foresees: Foresees, lengths: Lengths = Lengths.TOLD) -> Outcome:
    (folder / "teams.yaml").write_text(TEAMS)
    nodes = read_cluster("1x gpu:8")
    under = Conditions(
        timing=Timing(events=True), shares=folder / "teams.yaml", foresees=foresees, lengths=lengths
    )
    return simulation(evenings(), nodes, "anticipatory", OPTIONS, source_of(False, None, nodes), under).run()


def waits_s(found: Outcome, job: str) -> float:
    return float(found.queueing_s[found.workload.ids.index(job)])


def test_what_a_team_does_not_need_at_night_is_lent_once_that_is_learned(tmp_path: Path) -> None:
    learned, always = run(tmp_path, Foresees.LEARNED), run(tmp_path, Foresees.ALWAYS)
    assert waits_s(learned, "s8-1") == 0
    assert waits_s(learned, "s1-1") == waits_s(always, "s1-1") > 0, "too little is known on the second day"
    assert waits_s(always, "s8-1") > 0
    owners = [waits_s(learned, id) for id in learned.workload.ids if id.startswith("v")]
    assert max(owners) == 0, "nobody of vision waits for a borrower"


def test_lengths_are_told_in_the_classes_of_the_service(tmp_path: Path) -> None:
    found = run(tmp_path, Foresees.LEARNED, Lengths.FORETOLD)
    assert waits_s(found, "s8-1") == 0, "by then jobs like it were known to end within the hour"


def test_the_service_that_foretells_is_named_with_the_run() -> None:
    under = Conditions(shares=Path("teams.yaml"), foresees=Foresees.LEARNED, lengths=Lengths.FORETOLD)
    assert dict(under.services) == {"team_load": {}}


def test_without_teams_nothing_can_be_foreseen() -> None:
    with pytest.raises(ValueError, match="--foresees: tells of the jobs of teams, so it goes with --shares"):
        Conditions(foresees=Foresees.LEARNED)
