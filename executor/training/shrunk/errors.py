"""What a model says that cannot be made narrower."""

from __future__ import annotations

WIDTH = "write its widths as coadapt.width(…)"
AS_IS = "set shrink: 1, which trains the model as it is"


class CannotShrink(ValueError):
    """A model cannot be made narrower; one sentence that names the layer and the reason."""
