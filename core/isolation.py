"""How far the processes of a job are kept from all else on their machine."""

from __future__ import annotations

import re
import zlib
from enum import StrEnum


class Isolation(StrEnum):
    """What stands between a job's processes, other jobs and the cluster (docs/security.md)."""

    NONE = "none"  # they run as the user who started the cluster
    USER = "user"  # each job has a user id of its own; the cluster runs as root
    NAMESPACE = "namespace"  # bubblewrap: own processes, own /tmp, a read-only machine


# User ids of jobs. No account has them, and containers seldom do.
FIRST_UID = 1_200_000_000
UIDS = 100_000_000


def uid_of(job_id: str) -> int:
    """Return the user id of a job: the same on every machine and in every life of the job."""
    number = re.search(r"([0-9]{1,8})$", job_id)
    return FIRST_UID + (int(number[1]) if number else zlib.crc32(job_id.encode()) % UIDS)
