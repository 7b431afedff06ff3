"""Names of jobs in buckets: names that differ by a number or a few letters are one name. Pure but for its memory.

Source: Helios (SC'21), section on QSSF: names are clustered by Levenshtein distance.
"""

from __future__ import annotations

import re

from rapidfuzz.distance import Levenshtein

MOST_NAMES = 200  # compared per owner, the newest; so that a bucket is found in well under a millisecond
MOST_LETTERS = 120
_NUMBER = re.compile(r"\d+")


def normal_form(name: str) -> str:
    """Return a name in small letters, with each number as `#`, of `MOST_LETTERS` letters at most."""
    return _NUMBER.sub("#", name.strip().lower())[:MOST_LETTERS]


class NameBuckets:
    """Finds the bucket of a name among those of its owner: the first whose first name is similar enough.

    Args:
        similarity: from which on two names are one, 0..1: 1 less the Levenshtein distance over the longer length.

    Raises:
        ValueError: for a similarity outside of 0..1.
    """

    def __init__(self, similarity: float = 0.6) -> None:
        if not 0 <= similarity <= 1:
            raise ValueError(f"similarity: {similarity} is not accepted, must be from 0 to 1")
        self._similarity = similarity
        self._known: dict[str, dict[str, str]] = {}  # owner -> normal form -> bucket
        self._first: dict[str, list[str]] = {}  # owner -> first names of buckets, oldest first

    def of(self, owner: str, name: str) -> str:
        """Return the bucket of a name, which is the first name in it; "" for a job without a name."""
        form = normal_form(name)
        if not form:
            return ""
        known = self._known.setdefault(owner, {})
        if form not in known:
            if len(known) >= 10 * MOST_NAMES:
                known.clear()  # names without end, as with a hash in each
            known[form] = self._nearest(owner, form)
        return known[form]

    def _nearest(self, owner: str, form: str) -> str:
        first = self._first.setdefault(owner, [])
        for bucket in first:
            if Levenshtein.normalized_similarity(bucket, form, score_cutoff=self._similarity) >= max(
                self._similarity, 1e-9
            ):
                return bucket
        first.append(form)
        del first[:-MOST_NAMES]
        return form
