"""Whose idle GPUs those have who use more than they were promised. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NOBODY = ""  # whose GPUs are promised to no team


def lenders(unused: Mapping[str, int], borrowers: Iterable[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    """Return how many GPUs of which team each borrower has, by its id.

    GPUs that are promised to nobody are lent first, then those of the team with most left, and those of a
    borrower's own team last. GPUs of a type are alike, so this is a reckoning: no GPU has an owner of its own.

    Args:
        unused: promised GPUs that their team does not use, by team. `NOBODY`: those that are promised to none.
        borrowers: id, team and GPUs of each, in the order in which they borrow.
    """
    left, found = dict(unused), dict[str, dict[str, int]]()
    for id, team, gpus in borrowers:
        has = found.setdefault(id, {})
        for owner in sorted(left, key=lambda one: (one != NOBODY, one == team, -left[one], one)):
            taken = min(left[owner], gpus)
            if taken > 0:
                has[owner] = has.get(owner, 0) + taken
                left[owner] -= taken
                gpus -= taken
    return found


def lent_by_team(found: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the GPUs that each team lends, from what `lenders` returns."""
    lent: dict[str, int] = {}
    for owners in found.values():
        for owner, gpus in owners.items():
            if owner != NOBODY:
                lent[owner] = lent.get(owner, 0) + gpus
    return lent
