"""Energy that sleeping nodes save, and what waking them costs. Pure.

The published figures: an idle server draws 800 W, and cooling takes twice the server's energy (Helios, SC'21).
"""

from __future__ import annotations

IDLE_WATTS = 800.0
COOLING = 2.0  # energy of cooling, over that of the servers
YEAR_H = 8760.0


def saved_kwh(node_hours: float, *, idle_watts: float = IDLE_WATTS, cooling: float = COOLING) -> float:
    """Return the kWh that nodes do not draw while they are off for so many hours in all."""
    return node_hours * idle_watts / 1000 * (1 + cooling)


def boot_kwh(boots: int, boot_s: float = 300.0, *, watts: float = IDLE_WATTS, cooling: float = COOLING) -> float:
    """Return the kWh that booting nodes draw before a job can use them. The published figures leave this out."""
    return saved_kwh(boots * boot_s / 3600, idle_watts=watts, cooling=cooling)


def saved_kwh_per_year(nodes_off: float) -> float:
    """Return the kWh saved in a year with so many nodes off in the mean, as published."""
    return saved_kwh(nodes_off * YEAR_H)
