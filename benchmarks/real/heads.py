"""What the comments at the head of a script say about it.

# kind: 7 token means
# expect: refused accumulate: what is written here is the reason, for the reader
# leave out: metrics of lose: why they cannot be as alone
# reference: one: the order of a shuffled loader is drawn otherwise than alone
# tolerance: 1e-3: a sum over many steps of a chaotic game
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts" / "real"
HELPERS = {"results", "counters"}  # modules of theirs
# What is compared; "repeats": no sample is seen more often than alone.
PARTS = ("model", "buffers", "seen", "repeats", "metrics", "facts")
RIGHT, REFUSED, WRONG, HANG = "right", "refused", "WRONG", "HANG"


@dataclass
class Head:
    """`kinds`: parts of the promise it tries. `left_out`: what is not compared, by scenario, "all" for each."""

    kinds: str = ""
    expected: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, set[str]] = field(default_factory=dict)
    reference: str = "alone"
    tolerance: float = 1e-4

    def outcome(self, scenario: str) -> str:
        return self.expected.get(scenario, self.expected.get("all", RIGHT))

    def compares(self, part: str, scenario: str) -> bool:
        return not any(part in self.left_out.get(name, ()) for name in (scenario, "all"))


def head_of(script: Path) -> Head:
    """Read the first lines of a script. Raises ValueError for a line that says nothing known."""
    head = Head()
    for line in script.read_text().splitlines():
        if not line.startswith("#"):
            break
        key, _, rest = line[1:].strip().partition(": ")
        told, _, reason = rest.partition(": ")
        match key:
            case "kind":
                head.kinds = rest
                continue
            case "expect":
                outcome, _, scenarios = told.partition(" ")
                head.expected |= dict.fromkeys(_names(scenarios), outcome)
            case "leave out":
                parts, _, scenarios = told.partition(" of ")
                for scenario in _names(scenarios):
                    head.left_out.setdefault(scenario, set()).update(_names(parts))
            case "reference":
                head.reference = told
            case "tolerance":
                head.tolerance = float(told)
            case _:
                continue
        if not reason:
            raise ValueError(f"{script.name}: {line!r} gives no reason")
    if not head.kinds:
        raise ValueError(f"{script.name}: no line '# kind: …' in its head")
    return head


def scripts() -> dict[str, Path]:
    """Return all scripts by name."""
    return {path.stem: path for path in sorted(SCRIPTS.glob("*.py")) if path.stem not in HELPERS}


def _names(text: str) -> list[str]:
    return text.replace(",", " ").split()
