"""Profiles of models seen before: the next job that trains the same model starts with them, unprofiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .profile import Profile


@dataclass(frozen=True)
class Known:
    """What earlier jobs measured on one GPU type, and the largest local batch size that fit its memory."""

    profile: Profile
    max_local_bsz: int

    def __post_init__(self) -> None:
        if self.max_local_bsz < 1:
            raise ValueError(f"max_local_bsz: {self.max_local_bsz} must be at least 1")


@dataclass
class ProfileLibrary:
    """(fingerprint, GPU type) -> `Known`; plain memory, which the scheduler's store persists as JSON.

    A fingerprint names a model's structure and parameter shapes, or is the user's own.
    """

    _known: dict[tuple[str, str], Known] = field(default_factory=dict)

    def add(self, fingerprint: str, gpu_type: str, profile: Profile, max_local_bsz: int) -> None:
        """Merge new measurements; equal rows are averaged by count, the largest local batch size is kept.

        Raises ValueError for an empty fingerprint or GPU type. An empty profile changes nothing.
        """
        if not fingerprint or not gpu_type:
            raise ValueError(f"fingerprint, gpu_type: {fingerprint!r}, {gpu_type!r} must not be empty")
        if len(profile) == 0:
            return
        before = self._known.get((fingerprint, gpu_type))
        if before is not None:
            profile = before.profile.merge(profile)
            max_local_bsz = max(max_local_bsz, before.max_local_bsz)
        self._known[fingerprint, gpu_type] = Known(profile, max_local_bsz)

    def get(self, fingerprint: str) -> dict[str, Known]:
        """Return per GPU type what is known of a model; these types need no profiling."""
        return {gpu_type: known for (name, gpu_type), known in self._known.items() if name == fingerprint}

    def __len__(self) -> int:
        return len(self._known)

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {
                "fingerprint": fingerprint,
                "gpu_type": gpu_type,
                "max_local_bsz": known.max_local_bsz,
                "profile": known.profile.to_json(),
            }
            for (fingerprint, gpu_type), known in sorted(self._known.items(), key=lambda item: item[0])
        ]

    @classmethod
    def from_json(cls, entries: list[Mapping[str, Any]]) -> ProfileLibrary:
        """Read what `to_json` wrote. Raises ValueError for any other text, KeyError for a missing field."""
        library = cls()
        for entry in entries:
            profile = Profile.from_json(entry["profile"])
            library.add(entry["fingerprint"], entry["gpu_type"], profile, entry["max_local_bsz"])
        return library
