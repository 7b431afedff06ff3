"""The picture of a study: the metric of each trial over epochs, by width. PNG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..simulator.results import drawing


def picture(view: Mapping[str, Any]) -> bytes:
    """Draw a study as `Client.study` tells it. Stopped trials are pale, and the best one is thick."""
    figure, (axes,) = drawing.figure(1, width=8, height=4.2)
    widths = sorted({row["shrink"] for row in view["trials"]}, reverse=True)
    named = set[int]()
    for row in sorted(view["trials"], key=lambda row: (-row["shrink"], row["run"])):
        points = view["curves"].get(str(row["run"]), [])
        if not points:
            continue
        shrink, chosen = row["shrink"], row["trial"] == view["best_trial"]
        axes.plot(
            [epoch for epoch, _ in points],
            [value for _, value in points],
            color=drawing.COLOURS[widths.index(shrink)],
            alpha=1.0 if chosen or row["state"] == "done" else 0.35,
            lw=2.2 if chosen else 1.0,
            marker="o" if len(points) == 1 else None,
            label=None if shrink in named else _width(shrink),
        )
        named.add(shrink)
    best = [row["last"] for row in view["trials"] if row["shrink"] == 1 and row["last"] is not None]
    if 1 in widths and best and 1 not in named:  # targets train as any job, of which the last metric is known
        level = max(best) if view["mode"] == "max" else min(best)
        axes.axhline(level, color="black", ls="--", lw=1.2, label="best target")
    axes.set(xlabel="epoch", ylabel=view["metric"], title=f"{view['id']}: {view['trials_asked']} trials")
    axes.legend(fontsize=8)
    return drawing.png(figure)


def _width(shrink: int) -> str:
    return "whole width" if shrink == 1 else f"1/{shrink} of the width"
