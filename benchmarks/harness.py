"""What every benchmark shares: a readable table, the machine, and the last line of JSON."""

from __future__ import annotations

import json
import os
import platform
import resource
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

# Measured profiles and traces live beside the checkout and are never committed.
DATA = Path(os.environ.get("COADAPT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def needs(*paths: Path) -> None:
    """End with one sentence where measured data is not there."""
    for path in paths:
        if not path.exists():
            raise SystemExit(f"{path}: not there; COADAPT_DATA says where the measured data lies")


def machine() -> str:
    """Return one line that says what the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{os.cpu_count()} x {cpu}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}, {when}"


class PeakMemory:
    """The most memory that this process held since this was made, where the kernel can begin its count anew."""

    def __init__(self) -> None:
        with suppress(OSError):  # not Linux, or a kernel that forbids it: the peak is then the process' own
            Path("/proc/self/clear_refs").write_text("5")

    def gib(self) -> float:
        status = Path("/proc/self/status")
        for line in status.read_text().splitlines() if status.exists() else []:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a title; floats with three significant digits. On narrow terminals too no figure is cut."""
    view = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        view.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        view.add_row(*[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row])
    whole = Console(width=1_000).measure(view).maximum
    Console(width=max(120, min(whole, 200))).print(view)


def statements(section: str, held: Sequence[tuple[str, str, bool]]) -> dict[str, int]:
    """Print what a section of COpter's chapter 5 states, what was measured and whether it holds; how many do."""
    rows = [[statement, measured, "yes" if holds else "NO"] for statement, measured, holds in held]
    table(f"What section {section} states", ["statement (ours in place of COpter)", "measured", "holds"], rows)
    return {"statements_held": sum(holds for _, _, holds in held), "statements": len(held)}


def finish(benchmark: str, figures: Mapping[str, float | int | str | None], note: str = "") -> None:
    """Print the machine, with `note` behind it, and, last, the line of JSON that figures are followed by."""
    print("; ".join(part for part in (f"machine: {machine()}", note) if part))
    print(json.dumps({"benchmark": benchmark, "figures": dict(figures)}), flush=True)
