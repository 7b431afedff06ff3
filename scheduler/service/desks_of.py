"""Gives each desk the parts that it needs."""

from __future__ import annotations

from collections.abc import Callable

from ..access.others_jobs import OthersJobs
from ..desks.audit import AuditDesk
from ..desks.care import CareDesk
from ..desks.cluster import ClusterDesk
from ..desks.events import EventsDesk
from ..desks.health import HealthDesk
from ..desks.job_views import JobViewsDesk
from ..desks.jobs import JobsDesk
from ..desks.logs import LogsDesk
from ..desks.moments import Moments
from ..desks.nodes import NodesDesk
from ..desks.outputs import OutputsDesk
from ..desks.past_rounds import PastRoundsDesk
from ..desks.secrets import SecretsDesk
from ..desks.settings import SettingsDesk
from ..desks.standing import StandingDesk
from ..desks.table import Desks
from ..desks.team_board import TeamBoardDesk
from ..desks.teams import TeamsDesk
from ..desks.usage import UsageDesk
from ..desks.users import UsersDesk
from ..desks.webhooks import WebhooksDesk
from ..desks.whatif import WhatIfDesk
from ..runtime.loop import Health
from .parts import Parts


def desks_of(parts: Parts, health: Callable[[], Health]) -> Desks:
    """Return the desks of a service. `health`: returns how its loop is."""
    store, cycle, nodes, settings, clock = parts.store, parts.cycle, parts.nodes, parts.settings, parts.clock
    watch, readiness, moments = parts.watch, parts.readiness, Moments(clock)
    own_health = HealthDesk(
        store,
        cycle,
        nodes,
        settings,
        clock,
        watch,
        readiness,
        parts.backups,
        parts.housekeeping,
        parts.scaling,
        parts.deliveries,
        health,
        parts.forecaster.notes,
    )
    return Desks(
        parts.audit,
        [
            JobsDesk(
                store,
                cycle,
                settings,
                parts.packages,
                parts.secrets,
                parts.forks,
                cycle.teams,
                parts.webhooks,
                clock,
            ),
            UsageDesk(store, cycle, clock, moments),
            StandingDesk(store, cycle, cycle.teams),
            JobViewsDesk(
                store,
                cycle,
                nodes,
                settings,
                moments,
                readiness,
                lambda: parts.policy.now,
                parts.history,
                parts.forecaster.prediction,
                parts.answers,
            ),
            LogsDesk(store, settings, clock),
            OutputsDesk(store, settings),
            EventsDesk(store, moments),
            ClusterDesk(
                store,
                cycle,
                nodes,
                settings,
                clock,
                moments,
                readiness,
                parts.power,
                parts.scaling,
                parts.closing,
                parts.listeners,
                in_use=parts.in_use,
                health=own_health.health,
            ),
            PastRoundsDesk(store, moments),
            NodesDesk(
                cycle,
                nodes,
                clock,
                moments,
                watch,
                parts.power,
                parts.closing,
                OthersJobs(store),
                in_use=parts.in_use,
                woken=parts.wake.set,
                nodes_changed=parts.nodes_changed,
            ),
            UsersDesk(parts.identities, watch, cycle.teams),
            TeamsDesk(cycle.teams, store, cycle, nodes, clock, watch),
            TeamBoardDesk(cycle.teams, store, nodes),
            SecretsDesk(parts.secrets, watch, parts.executors.give),
            WebhooksDesk(store, parts.webhooks, parts.deliveries, parts.pictures, parts.history, clock, watch),
            AuditDesk(parts.audit),
            SettingsDesk(parts.live, parts.policy, cycle, clock, watch, parts.view),
            CareDesk(parts.backups, parts.pruning, watch),
            own_health,
            WhatIfDesk(store, cycle, nodes, settings, moments, parts.forecaster, parts.asker),
        ],
    )
