"""The names of a job's checkpoint files: data, and beside it a manifest without which it does not count.

A sharded job's checkpoint has a folder of shards, too.
"""

from __future__ import annotations

from dataclasses import dataclass

DATA, MANIFEST, SHARDS = ".pt", ".json", ".shards"
SHARD_FILES = "shards"  # key of a manifest that has size and SHA-256 of each file of shards


@dataclass(frozen=True, order=True)
class CheckpointName:
    """One file name: `step-<steps>-<milliseconds since the epoch>-<token>`; sorts by progress, then by age."""

    steps: int
    created_ms: int
    token: str

    @property
    def stem(self) -> str:
        return f"step-{self.steps:012d}-{self.created_ms:013d}-{self.token}"

    @staticmethod
    def parse(stem: str) -> CheckpointName | None:
        """Return the name of these files without their endings; None for any other file."""
        parts = stem.split("-")
        if len(parts) != 4 or parts[0] != "step" or not (parts[1].isdigit() and parts[2].isdigit()):
            return None
        return CheckpointName(int(parts[1]), int(parts[2]), parts[3])
