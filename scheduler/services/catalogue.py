"""All services by name. Importing this module registers every one of them."""

from . import arrivals, durations, energy, team_load
from .registry import make_service, make_services, service_names

__all__ = ["arrivals", "durations", "energy", "make_service", "make_services", "service_names", "team_load"]
