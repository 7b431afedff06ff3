"""What UniSched's paper says of misses and latency, and what is promised here; each is counted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .mixes import MIXED, MIXES

Means = Mapping[str, Mapping[str, Mapping[str, float]]]  # mix -> policy -> figure -> mean over seeds
OWN, PUBLISHED = "unisched", "published"
DEADLINE_PEERS = ("three_sigma", "hydra", "genie")
BLIND = ("themis", "optimus")
POINTS = 5e-4  # of misses that count as none
SLOWER = 1.01


@dataclass(frozen=True)
class Statement:
    """`value` is to be at most `aim`. An aim of nan: it only stands beside the paper's."""

    row: str
    mix: str
    what: str
    paper: str
    aim: float
    value: float

    @property
    def counts(self) -> bool:
        return not math.isnan(self.aim)

    @property
    def holds(self) -> bool:
        return self.value <= self.aim


def over(own: float, other: float) -> float:
    """Return own / other; 0 over 0 is 1."""
    if other == 0 or math.isnan(other):
        return 1.0 if own == other else math.nan if math.isnan(other) else math.inf
    return own / other


def ratio(means: Means, mix: str, figure: str, peer: str, own: str = OWN) -> float:
    """Return a figure of a policy over that of a peer on a mix."""
    return over(means[mix][own][figure], means[mix][peer][figure])


def least_missing(means: Means, mix: str) -> str:
    """Return the peer that looks at deadlines and misses least; "": none was run."""
    there = [peer for peer in DEADLINE_PEERS if peer in means[mix]]
    return min(there, key=lambda peer: means[mix][peer]["miss_rate"], default="")


def statements(means: Means) -> list[Statement]:
    """Return all statements for which both sides were run."""
    return [*_paper(means), *_beside(means), *_time(means)]


def _paper(means: Means) -> Iterator[Statement]:
    nan = math.nan
    for mix in (mix for mix in MIXES if OWN in means.get(mix, ())):
        there = means[mix]
        if mix == "p_mix1" and "themis" in there:
            said, value = "1/6.84", ratio(means, mix, "miss_rate", "themis")
            yield Statement("6a, #1", mix, "misses over themis", said, 1 / 6.84, value)
        for peer in BLIND if mix in MIXED else ():
            if peer in there:
                value = ratio(means, mix, "miss_rate", peer)
                yield Statement("6a, #4", mix, f"misses over {peer}", "1/2.01 to 1/6.84", 1 / 2.01, value)
        if best := least_missing(means, mix):
            mixed = mix in MIXED
            said, aim = ("1/0.95 to 1/2.77", 1.0) if mixed else ("1/1.17 to 1/4.82", 1 / 1.17)
            value = ratio(means, mix, "miss_rate", best)
            yield Statement("6a, #3" if mixed else "6a, #2", mix, f"misses over {best}", said, aim, value)
        if mix not in MIXED:
            continue
        for peer in (*DEADLINE_PEERS, *BLIND):
            if peer in there:
                blind = peer in BLIND
                said, aim = ("1/1.18 to 1/3.11", nan) if blind else ("1/1.66 to 1/4.02", 1 / 1.18)
                value = ratio(means, mix, "be_jct_h", peer)
                yield Statement("6b, #7", mix, f"best effort over {peer}", said, aim, value)
    for trace in ("p", "h"):
        one, two = f"{trace}_mix1", f"{trace}_mix2"
        if OWN in means.get(one, ()) and OWN in means.get(two, ()):
            value = over(means[two][OWN]["miss_rate"], means[one][OWN]["miss_rate"])
            yield Statement("6a, #5", two, "misses over those of MIX1", "clearly lower", 1.0, value)
    for mix in (mix for mix in MIXED if PUBLISHED in means.get(mix, ())):
        value = over(means[mix][PUBLISHED]["suspensions_be"], means[mix][PUBLISHED]["suspensions_deadline"])
        yield Statement("8, #13", mix, "stops, best effort over others", "markedly fewer", 1.0, value)


def _beside(means: Means) -> Iterator[Statement]:
    """Yield what is promised beside the published form, and beside ten lines that look at slack."""
    both = [mix for mix in MIXES if OWN in means.get(mix, ()) and PUBLISHED in means[mix]]
    if both:
        own, theirs = (sum(means[mix][who]["miss_rate"] for mix in both) for who in (OWN, PUBLISHED))
        yield Statement("", "all", "misses over as published", "", 1.0, over(own, theirs))
        mixed = [mix for mix in both if mix in MIXED]
        own, theirs = (sum(means[mix][who]["be_jct_h"] for mix in mixed) for who in (OWN, PUBLISHED))
        if mixed:
            yield Statement("", "all", "best effort over as published", "", 0.9, over(own, theirs))
    for mix in (mix for mix in MIXES if {OWN, "laxity"} <= set(means.get(mix, ()))):
        more = means[mix][OWN]["miss_rate"] - means[mix]["laxity"]["miss_rate"]
        yield Statement("", mix, "misses less those of laxity", "", POINTS, more)
        if mix in MIXED:
            value = ratio(means, mix, "be_jct_h", "laxity")
            yield Statement("", mix, "best effort over laxity", "", SLOWER, value)


def _time(means: Means) -> Iterator[Statement]:
    """Yield how long a decision and a whole trace take."""
    there = [mix for mix in MIXES if OWN in means.get(mix, ())]
    if there:
        slowest = max(there, key=lambda mix: means[mix][OWN]["policy_p99_s"])
        yield Statement("", slowest, "a decision, p99 (s)", "", 2.0, means[slowest][OWN]["policy_p99_s"])
        longest = max(there, key=lambda mix: means[mix][OWN]["trace_min"])
        yield Statement("", longest, "a trace (min)", "", 30.0, means[longest][OWN]["trace_min"])
