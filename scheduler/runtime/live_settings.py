"""Settings that an operator has changed while the scheduler ran. They last over restarts.

What is typed at a later `coadapt up` counts more than what was changed before.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from ...core.errors import SettingError
from ...core.events import EventKind
from ...core.json_numbers import dumps
from ...core.settings import Settings
from ...core.settings_change import differing, validated, why_fixed
from ...policies.catalogue import live_policy
from ..store import audit
from ..store.events import Event
from ..store.store import Store

log = logging.getLogger(__name__)

FACT = "settings"


class LiveSettings:
    """The settings of a service, with what was changed since they were typed.

    Args:
        given: what was typed; it becomes what counts.
        begun: names the `coadapt up` at which it was typed.
    """

    def __init__(self, store: Store, given: Settings, begun: str) -> None:
        self._store, self.now, self._begun = store, given, begun
        default, before = Settings(state_dir=given.state_dir), _read(store)
        again = before["begun"] == begun
        self._changed = {
            name: value
            for name, value in before["changed"].items()
            if name in Settings.model_fields
            and not why_fixed(name)
            and (again or getattr(given, name) == getattr(default, name))
        }
        self._take_up()
        if before != self._document():
            store.write_fact(FACT, dumps(self._document()))

    def _take_up(self) -> None:
        """Let the changes count. Those of a version that accepts others are left out."""
        for name in list(self._changed):
            try:
                validated({**self.now.model_dump(), name: self._changed[name]})
            except SettingError as error:
                log.error("a setting that was changed before is left out: %s", error)
                del self._changed[name]
        found = validated({**self.now.model_dump(), **self._changed})
        try:
            live_policy(found.policy, **found.policy_options)
        except ValueError as error:
            log.error("the policy that was chosen before is left out: %s", error)
            for name in ("policy", "policy_options"):
                self._changed.pop(name, None)
            found = validated({**self.now.model_dump(), **self._changed})
        self.now.take(found)

    def change(self, wanted: Settings, who: str, now: float) -> list[str]:
        """Store other settings, then let them count. Return the names of those that are new.

        Raises: StoreFailure; nothing has changed then.
        """
        names = differing(self.now, wanted)
        if not names:
            return []
        document = wanted.model_dump(mode="json")
        before = self.now.model_dump(mode="json")
        after = {**self._changed, **{name: document[name] for name in names}}
        told = ", ".join(f"{name} is {dumps(document[name])}, and was {dumps(before[name])}" for name in names)
        audit.tell({name: before[name] for name in names}, {name: document[name] for name in names})
        with self._store.together():
            self._store.write_fact(FACT, dumps({"begun": self._begun, "changed": after}))
            self._store.log(Event(EventKind.SETTINGS, now, None, {"text": told}, cause="settings set", who=who))
        self._changed = after
        self.now.take(wanted)
        return names

    def rows(self) -> list[dict[str, Any]]:
        """Return a `core.schemas.SettingRow` of each setting."""
        now = self.now.model_dump(mode="json")
        default = Settings(state_dir=self.now.state_dir).model_dump(mode="json")
        return [
            {
                "name": name,
                "value": now[name],
                "default": default[name],
                "changed": name in self._changed,
                "fixed": why_fixed(name),
            }
            for name in now
        ]

    def _document(self) -> dict[str, Any]:
        return {"begun": self._begun, "changed": self._changed}


def _read(store: Store) -> Mapping[str, Any]:
    try:
        found = json.loads(store.read_fact(FACT) or "{}")
        return {"begun": str(found.get("begun", "")), "changed": dict(found.get("changed", {}))}
    except (ValueError, TypeError, AttributeError):
        return {"begun": "", "changed": {}}
