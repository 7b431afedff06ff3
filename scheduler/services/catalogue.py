"""All services by name. Importing this module registers every one of them."""

from . import durations
from .registry import make_service, make_services, service_names

__all__ = ["durations", "make_service", "make_services", "service_names"]
