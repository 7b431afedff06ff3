"""What tests of narrow models share: a script's process begins without widths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from coadapt.executor.training.shrunk import width as widths


@pytest.fixture(autouse=True)
def _no_widths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (widths.VARIABLE, widths.ZERO):
        monkeypatch.delenv(name, raising=False)
    widths.forget()
    torch.manual_seed(0)
    yield
    widths.forget()
