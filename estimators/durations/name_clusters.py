"""Names of jobs in buckets by affinity propagation over edit distances, with a cap on how many are compared.

Source: Lucid, ASPLOS'23, section on the workload estimate model. Distances of n names take n² memory, so that only
the most frequent names are compared. Others, and those that come later, go to the nearest bucket or to `OTHER`.
Fitting needs the extra `coadapt[learned]`; what is fitted needs nothing of it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist, extractOne

from ..interpretable.needs import library
from .names import MOST_LETTERS

MOST_NAMES = 500  # that are compared with each other: about a second
OTHER = "other"
SIMILAR = 0.6  # 1 less the distance over the longer length; a name less near to any bucket is in `OTHER`


def written(name: str) -> str:
    """Return a name as it is compared: in small letters, of `MOST_LETTERS` letters at most."""
    return name.strip().lower()[:MOST_LETTERS]


@dataclass(frozen=True)
class NameClusters:
    """Buckets, each called by its exemplar. buckets: of the names that were compared. similar: see `SIMILAR`."""

    buckets: Mapping[str, str] = field(default_factory=dict)
    similar: float = SIMILAR

    def of(self, owner: str, name: str) -> str:
        """Return the bucket of a name; "" for a job without one. Owners share buckets."""
        asked = written(name)
        if not asked or asked in self.buckets:
            return self.buckets.get(asked, "")
        near = extractOne(
            asked, self.exemplars, scorer=Levenshtein.normalized_similarity, score_cutoff=self.similar
        )
        return OTHER if near is None else str(near[0])

    @property
    def exemplars(self) -> tuple[str, ...]:
        """Return what buckets are called."""
        return tuple(dict.fromkeys(self.buckets.values()))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"similar": self.similar, "buckets": dict(self.buckets)}

    @classmethod
    def read(cls, document: Any) -> NameClusters:
        """Return what `to_json` wrote. Raises ValueError, in one sentence, for anything else."""
        try:
            buckets, similar = dict(document["buckets"]), float(document["similar"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"names: are no such buckets: {type(error).__name__}: {error}") from None
        if not all(isinstance(text, str) for pair in buckets.items() for text in pair) or not 0 <= similar <= 1:
            raise ValueError("names: are no such buckets")
        return cls(buckets, similar)


def fit(names: Iterable[str], *, most: int = MOST_NAMES, similar: float = SIMILAR, seed: int = 0) -> NameClusters:
    """Fit to the names of jobs that have ended, each as often as it occurs.

    Where affinity propagation does not settle, each name is a bucket of its own.

    Raises:
        ValueError: in one sentence, for a cap below 2 and a similarity outside of 0 to 1.
        LibraryMissing: where the extra is not installed.
    """
    if most < 2:
        raise ValueError(f"most: {most} names are not accepted, must be at least 2")
    if not 0 <= similar <= 1:
        raise ValueError(f"similar: {similar} is not accepted, must be from 0 to 1")
    counted = Counter(form for form in map(written, names) if form)
    kept = sorted(form for form, _ in sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:most])
    if len(kept) < 3:
        return NameClusters({form: form for form in kept}, similar)
    distances = cdist(kept, kept, scorer=Levenshtein.distance).astype(float)
    propagation = library("sklearn.cluster").AffinityPropagation(affinity="precomputed", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not settle, which its labels tell
        found = propagation.fit(-distances)
    if (np.asarray(found.labels_) < 0).any():
        return NameClusters({form: form for form in kept}, similar)
    exemplars = [kept[i] for i in found.cluster_centers_indices_]
    return NameClusters({form: exemplars[label] for form, label in zip(kept, found.labels_, strict=True)}, similar)
