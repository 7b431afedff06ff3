"""Who borrows is kept with the jobs, so that a service that was killed goes on with the same borrowers."""

from __future__ import annotations

from dataclasses import replace

from coadapt.policies.contract.round import Plan
from coadapt.scheduler.rounds.borrowers import changed_by

from tests.support.records import job


def test_only_jobs_whose_borrowing_changes_are_written() -> None:
    own, lent, new = (job(id=id) for id in ("own", "lent", "new"))
    lent = replace(lent, borrows=True)
    ended = job(id="ended", borrows=True)
    changed = changed_by(Plan({}, borrowed=frozenset({"lent", "new"})), [own, lent, new, ended])
    assert [(one.id, one.borrows) for one in changed] == [("new", True), ("ended", False)]
