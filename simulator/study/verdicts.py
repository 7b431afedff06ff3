"""Whether a trace bears out what is claimed, or cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a trace says of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True)
class Claim:
    """A statement with its bound, the verdict, and the trace's own numbers or why it cannot tell."""

    text: str
    verdict: Verdict
    told: str


@dataclass(frozen=True)
class Implication:
    """One of the paper's implications, and the claims about a trace on which it stands.

    `paper`: the paper's own numbers.
    """

    number: int
    text: str
    claims: tuple[Claim, ...]
    paper: str

    @property
    def verdict(self) -> Verdict:
        """It fails with any claim, and holds only if all claims hold."""
        found = {claim.verdict for claim in self.claims}
        return next(one for one in (Verdict.FAILS, Verdict.UNKNOWN, Verdict.HOLDS) if one in found)


def judged(text: str, holds: bool, told: str) -> Claim:
    """Return a claim that a trace can decide."""
    return Claim(text, Verdict.HOLDS if holds else Verdict.FAILS, told)


def unknown(text: str, why: str) -> Claim:
    """Return a claim that a trace cannot decide."""
    return Claim(text, Verdict.UNKNOWN, why)
