"""What tests of executors share."""

from __future__ import annotations

import pytest

from tests.support.simulated_workers import World


@pytest.fixture
def world() -> World:
    """Return an executor without Ray, whose workers are simulated."""
    return World()
