"""HTML that all pages share. Pictures are in the file and nothing is fetched."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape

import numpy as np

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1150px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .25em .8em; text-align: right }
td:first-child, th:first-child { text-align: left } tr { border-bottom: 1px solid #e4e4e4 }
th { border-bottom: 2px solid #888 } .better { color: #00704f } .worse { color: #b0440a }
small { color: #666 } img { max-width: 100% } h2 { margin-top: 2em } code { background: #f3f3f3 }
"""


def document(title: str, body: Iterable[str]) -> str:
    """Return a whole page of these parts, which are HTML; the title is text."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def picture(heading: str, png: bytes) -> str:
    """Return a picture that carries its own data."""
    return f'<img alt="{escape(heading)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def number(value: float) -> str:
    """Return a number with three digits, or all of those before the point; `-`: it is not known."""
    return "-" if not np.isfinite(value) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
