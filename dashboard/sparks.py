"""Small curves: the points of an SVG line that fills a box of 100 by 24. Pure."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, EDGE = 100.0, 24.0, 2.0


def curve(values: Sequence[float]) -> str:
    """Return the points of values that are equally far apart; "" for less than two. The bottom is 0."""
    return steps(
        [(float(at), value) for at, value in enumerate(values)], 0.0, max(len(values) - 1.0, 1.0), stepped=False
    )


def steps(found: Sequence[tuple[float, float]], begin: float, end: float, *, stepped: bool = True) -> str:
    """Return the points of values at moments between `begin` and `end`; each holds until the next if `stepped`."""
    if len(found) < (1 if stepped else 2) or end <= begin:
        return ""
    low, high = min(0.0, *(value for _, value in found)), max(value for _, value in found)
    tall = (high - low) or 1.0

    def place(at: float, value: float) -> str:
        x = WIDTH * min(max((at - begin) / (end - begin), 0.0), 1.0)
        y = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - low) / tall
        return f"{x:.1f},{y:.1f}"

    points, last = [], None
    for at, value in found:
        if stepped and last is not None and last != value:
            points.append(place(at, last))
        points.append(place(at, value))
        last = value
    if stepped:
        points.append(place(end, found[-1][1]))
    return " ".join(points)
