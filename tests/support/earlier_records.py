"""Records as earlier versions wrote them."""

from __future__ import annotations

import json
from typing import Any


def without_names(record: str) -> str:
    """Return a record of the time when slots counted GPUs and did not name them."""
    row = json.loads(record)
    for name in ("target", "held", "group"):
        row[name] = [_counted(slot) for slot in row[name]]
    row["given"] = [(sequence, _counted(slot)) for sequence, slot in row.pop("last_grant")]
    row["profiles"] = [{**run, "slot": _counted(run["slot"]) if run["slot"] else None} for run in row["profiles"]]
    return json.dumps(row)


def _counted(slot: dict[str, Any]) -> dict[str, Any]:
    devices = slot["devices"]
    rest = {name: value for name, value in slot.items() if name not in ("devices", "share")}
    return {**rest, "gpus": len(devices), "index": devices[0] // len(devices)}
