"""`python -m coadapt.executor.rehearsal.rehearsed script args…`: a slow training process that takes notes.

It pauses at every optimizer step, so that `check` can change its group within a few steps. It writes down what the
session has found out about the script, and samples of the parameters for comparison.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

NOTES = "COADAPT_REHEARSAL_NOTES"  # path of the file of notes
PAUSE_S = 0.06  # longer than between two control points
MOST_STEPS = 20  # samples of so many steps are kept


@dataclass
class Notes:
    """Keep `losses`, the kind of loss of each backward of a batch, and `samples` of each parameter by step."""

    losses: list[str] = field(default_factory=list)
    one_pass: bool = False  # a batch cannot be taken in several passes
    names: list[str] = field(default_factory=list)
    samples: dict[str, list[int]] = field(default_factory=dict)

    def keep(self, path: Path) -> None:
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(asdict(self)))
        beside.replace(path)

    @classmethod
    def read(cls, path: Path) -> Notes:
        return cls(**json.loads(path.read_text())) if path.exists() else cls()


def differing(first: Notes, second: Notes, alike: Any) -> tuple[str, str] | None:
    """Return the first step after which two replicas of a group differed, and the parameter; None if none did."""
    for step in sorted(first.samples.keys() & second.samples.keys(), key=lambda key: [*map(int, key.split("/"))]):
        pairs = zip(first.names, first.samples[step], second.samples[step], strict=False)
        for name, one, other in pairs:
            if not alike(one, other):
                return step, name
    return None


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run `script args…`; return the exit status of the process."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from ..training import api, process
    from ..training.sessions.managed_session import ManagedSession
    from ..training.sessions.parameter_samples import sample_of

    notes, path = Notes(), Path(environment[NOTES])

    def after_step(*_: Any) -> None:
        session = api.current()
        if not isinstance(session, ManagedSession) or session.group is None:
            return
        parameters = session.prepared.parameters()
        notes.losses = [kind.name for kind in session.gradients.weights.kinds]
        notes.one_pass = session.one_pass
        if session.world_size > 1:
            if len(notes.names) != len(parameters):
                notes.names, notes.samples = [session.prepared.name_of(p) for p in parameters], {}
            notes.samples[f"{session.group.generation}/{session.position.iterations}"] = [
                sample_of(parameter) for parameter in parameters
            ]
            while len(notes.samples) > MOST_STEPS:
                del notes.samples[next(iter(notes.samples))]
        notes.keep(path)
        time.sleep(PAUSE_S)

    register_optimizer_step_post_hook(after_step)
    return process.main(arguments)


if __name__ == "__main__":
    from ..training.process import leave

    leave(main(sys.argv[1:]))
