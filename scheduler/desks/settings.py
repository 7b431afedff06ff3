"""Shows settings, and lets an operator change them while the scheduler runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import SettingError
from ...core.settings import Settings
from ...core.settings_change import changed
from ...policies.per_pool import PerPool
from ...policies.warm_up import COMPILING
from ..cycle import SchedulingCycle
from ..nodes.node_view import NodeView
from ..rounds.chosen_policy import ChosenPolicy, planner_of
from ..rounds.kernels import load_kernels
from ..runtime.clock import Clock
from ..runtime.degraded import StoreWatch
from ..runtime.live_settings import LiveSettings

log = logging.getLogger(__name__)


class SettingsDesk:
    """Answers for settings. All parts hold the one object that a change fills anew."""

    def __init__(
        self,
        live: LiveSettings,
        policy: ChosenPolicy,
        cycle: SchedulingCycle,
        clock: Clock,
        watch: StoreWatch,
        view: NodeView,
    ) -> None:
        self._live, self._policy, self._cycle = live, policy, cycle
        self._clock, self._watch, self._view = clock, watch, view

    def settings(self) -> dict[str, Any]:
        """Return all settings, by name."""
        return self._live.now.model_dump()

    def settings_rows(self) -> Sequence[dict[str, Any]]:
        """Return a `core.schemas.SettingRow` of each setting."""
        return self._live.rows()

    def change_settings(self, wanted: Mapping[str, Any], who: str = "") -> Sequence[str]:
        """Let other settings count from the next round on; return the names of those that are new.

        Raises: SettingError, in one sentence; StateError where nothing can be stored now.
        """
        while True:
            found = changed(self._live.now, wanted)
            planner = self._planner_of(found)
            with self._watch.storing(), self._cycle.lock:
                if found != changed(self._live.now, wanted):  # somebody has changed others while kernels compiled
                    continue
                names = self._live.change(found, who, self._clock.steady_s())
                self._view.refresh_s = found.node_refresh_s
                if planner is not None:
                    self._policy.now = planner
                    self._cycle.plan_by(planner)
                break
        self._cycle.ask_round()
        return names

    def _planner_of(self, found: Settings) -> PerPool | None:
        """Return the policy of settings, compiled; None: it is that of now. Raises: SettingError."""
        now = self._live.now
        if (found.policy, found.policy_options) == (now.policy, now.policy_options):
            return None
        try:
            planner = planner_of(found)
        except ValueError as error:
            raise SettingError(str(error)) from None
        load_kernels(found.policy, found.policy_options, lambda: log.info(COMPILING))  # no round waits for it
        return planner
