"""From what somebody asks of teams to the file of teams as it would be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.cluster import Cluster
from ...core.errors import TeamsError, WhatIfError
from ...core.teams import Teams, misfits
from ...core.teams_file import from_values

FIELDS = ("share", "guarantee", "cap")


def otherwise(teams: Teams | None, wanted: Mapping[str, Mapping[str, Any]], cluster: Cluster) -> Teams:
    """Return teams with other values, such as {"vision": {"cap.a100": 32}}.

    Args:
        cluster: the nodes that would be.

    Raises: WhatIfError, in one sentence.
    """
    if teams is None:
        raise WhatIfError("team: this cluster has no teams")
    values = teams.model_dump(mode="json")
    for name, changes in wanted.items():
        if name not in values["teams"]:
            raise WhatIfError(f"team: {name!r} is no team; there are {', '.join(values['teams']) or 'none'}")
        for key, value in changes.items():
            field, dot, gpu_type = key.partition(".")
            if field not in FIELDS or bool(dot) == (field == "share"):
                raise WhatIfError(f"team: {key!r} is not accepted; share, guarantee.TYPE and cap.TYPE are")
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            if dot:
                values["teams"][name][field][gpu_type] = whole
            else:
                values["teams"][name][field] = value
    return of_file(values, cluster)


def of_file(values: Mapping[str, Any], cluster: Cluster) -> Teams:
    """Return the teams of a whole file.

    Args:
        cluster: the nodes that would be.

    Raises: WhatIfError, in one sentence.
    """
    try:
        found = from_values(values)
    except TeamsError as error:
        raise WhatIfError(str(error)) from None
    for wrong in misfits(found, cluster):
        raise WhatIfError(wrong)
    return found
