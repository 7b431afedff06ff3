"""Services are found by name, and a wrong name or option gets one sentence."""

from __future__ import annotations

import pytest
from coadapt.scheduler.services.catalogue import make_service
from coadapt.scheduler.services.contract import Service
from coadapt.scheduler.services.registry import register


def test_an_unknown_service_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="service: 'duratoins' is unknown; accepted: "):
        make_service("duratoins", {})


def test_a_service_needs_options_and_the_base_class() -> None:
    with pytest.raises(TypeError, match="must derive from"):
        register("strange")(type("Strange", (), {}))
    with pytest.raises(TypeError, match="has no pydantic model named Options"):
        register("bare")(type("Bare", (Service,), {}))
