"""Services by name, with validated options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from ...core.options import options_of
from .contract import Service

ServiceClass = TypeVar("ServiceClass", bound=type[Service])
_SERVICES: dict[str, type[Service]] = {}


def register(name: str) -> Callable[[ServiceClass], ServiceClass]:
    """Offer a service under a name.

    Raises:
        ValueError: for a name that is taken.
        TypeError: for a class that is no `Service` or has no `Options`.
    """

    def add(service: ServiceClass) -> ServiceClass:
        if name in _SERVICES:
            raise ValueError(f"service: {name!r} is registered twice")
        if not issubclass(service, Service):
            raise TypeError(f"service: {name!r} must derive from services.contract.Service")
        if not issubclass(getattr(service, "Options", object), BaseModel):
            raise TypeError(f"service: {name!r} has no pydantic model named Options")
        service.name = name
        _SERVICES[name] = service
        return service

    return add


def service_names() -> tuple[str, ...]:
    """Return the names of all services, sorted."""
    return tuple(sorted(_SERVICES))


def make_service(name: str, options: Mapping[str, Any]) -> Service:
    """Return a new service that has learned nothing.

    Raises:
        ValueError: in one sentence, for an unknown name, an unknown option or a value that is not accepted.
    """
    service = _SERVICES.get(name)
    if service is None:
        raise ValueError(f"service: {name!r} is unknown; accepted: {', '.join(service_names())}")
    chosen = options_of(service.Options, f"service {name}", options)
    return service(chosen)  # type: ignore[call-arg]  # a class takes its own Options


def make_services(options: Mapping[str, Mapping[str, Any]]) -> dict[str, Service]:
    """Return services by name; `options`: by service. Raises ValueError as `make_service` does."""
    return {name: make_service(name, chosen) for name, chosen in options.items()}
