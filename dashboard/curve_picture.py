"""Draws a job's curve as a PNG, for messages of chat services, which show no SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.wording import span
from .words import short

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont
    from PIL.ImageFont import ImageFont as PixelFont

WIDTH, HEIGHT, FINER = 640, 320, 2  # pixels; drawn so many times as fine, so that lines are smooth
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 40
PAPER, INK, FAINT, LINE = "#ffffff", "#222222", "#dddddd", "#2563a8"
MOST_TITLE = 60


def picture(job_id: str, metric: str, points: Sequence[tuple[float, float]]) -> bytes:
    """Return the picture of a curve.

    Args:
        metric: what it shows; "": nothing was reported yet.
        points: seconds and values, oldest first.
    """
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (WIDTH * FINER, HEIGHT * FINER), PAPER)
    draw = ImageDraw.Draw(image)
    title, text = ImageFont.load_default(18 * FINER), ImageFont.load_default(13 * FINER)

    def write(x: float, y: float, said: str, anchor: str, font: FreeTypeFont | PixelFont = text) -> None:
        draw.text((x * FINER, y * FINER), said, INK, font, anchor)

    write(LEFT, 24, job_id[:MOST_TITLE], "lm", title)
    if not points:
        write(WIDTH / 2, HEIGHT / 2, "no metric was reported yet", "mm")
        return _png(image)
    low, high = min(value for _, value in points), max(value for _, value in points)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    first_s, last_s = points[0][0], max(points[-1][0], points[0][0] + 1.0)
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    write(WIDTH - RIGHT, 24, f"{metric[:MOST_TITLE]} {short(points[-1][1])}", "rm")
    for at in range(5):
        y, value = TOP + tall * (1 - at / 4), low + (high - low) * at / 4
        draw.line([(LEFT * FINER, y * FINER), ((WIDTH - RIGHT) * FINER, y * FINER)], FAINT, FINER)
        write(LEFT - 8, y, short(value), "rm")
    write(LEFT, HEIGHT - 18, "0", "mm")
    write(WIDTH - RIGHT, HEIGHT - 18, f"after {span(last_s - first_s)}", "rm")
    curve = [
        (
            (LEFT + wide * (at_s - first_s) / (last_s - first_s)) * FINER,
            (TOP + tall * (high - value) / (high - low)) * FINER,
        )
        for at_s, value in points
    ]
    if len(curve) > 1:
        draw.line(curve, LINE, 2 * FINER, joint="curve")
    x, y = curve[-1]
    draw.ellipse([x - 4 * FINER, y - 4 * FINER, x + 4 * FINER, y + 4 * FINER], LINE)
    return _png(image)


def _png(image: object) -> bytes:
    from PIL import Image

    assert isinstance(image, Image.Image)
    out = io.BytesIO()
    image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS).save(out, "PNG", optimize=True)
    return out.getvalue()
