"""No garbage is collected within a round, and it is afterwards, however the round ends."""

from __future__ import annotations

import gc

import pytest
from coadapt.scheduler.runtime.garbage import not_collected


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_within_and_afterwards_as_it_was(enabled: bool) -> None:
    @not_collected()
    def fail() -> None:
        assert not gc.isenabled()
        raise ArithmeticError

    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ArithmeticError):
            fail()
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
