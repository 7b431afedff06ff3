"""Drawing that all pictures share: colours, axes, PNG. matplotlib is optional: `pip install 'coadapt[report]'`."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ..traces.tables import Floats

# These colours are safe for colour-blind readers (Okabe and Ito). All pictures use the same order.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
STYLES = ("-", "--", "-.", ":")
DPI = 110
POINTS = 2000  # of a line or cloud; more look the same


def style(at: int) -> dict[str, Any]:
    """Return colour, dashes and width of line `at`; dashes let a line below show through."""
    return {"color": COLOURS[at % len(COLOURS)], "ls": STYLES[at % len(STYLES)], "lw": 1.6}


def cdf(axes: Any, values: Floats, label: str, at: int) -> None:
    """Draw the fraction of values up to each of them, on an axis that may be logarithmic."""
    values = np.sort(values)
    upto = np.arange(1, len(values) + 1) / len(values)
    values = np.maximum(values, values[values > 0].min(initial=1e-9) if (values > 0).any() else 1e-9)
    some = np.unique(np.linspace(0, len(values) - 1, min(len(values), POINTS)).astype(int))
    x = np.concatenate([values[:1], values[some]])
    axes.step(x, np.concatenate([[0.0], upto[some]]), where="post", label=label, **style(at))


def plain_log(axis: Any) -> None:
    """Mark a log axis with `0.1`, `0.2`, `0.5`, `1` instead of powers; a wide one has whole decades only."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def figure(panels: int, width: float = 11.0, height: float = 3.6, rows: bool = False) -> tuple[Any, list[Any]]:
    """Return a figure of so many inches with panels beside each other, or in rows that share their x axis.

    Raise ValueError, in one sentence, where matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise ValueError("pictures need matplotlib; `pip install 'coadapt[report]'` installs it") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shape = (panels, 1) if rows else (1, panels)
    made, axes = plt.subplots(*shape, figsize=(width, height), squeeze=False, sharex=rows)
    for one in axes.flat:
        one.grid(lw=0.4, color="#dddddd")
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
    return made, list(axes.flat)


def png(drawn: Any) -> bytes:
    """Return a figure as PNG, and forget it."""
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    drawn.tight_layout()
    drawn.savefig(buffer, dpi=DPI, bbox_inches="tight")
    plt.close(drawn)
    return buffer.getvalue()
