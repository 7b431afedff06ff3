"""Addresses of pictures of jobs' curves, which people without a token open: signed, and good for some days."""

from __future__ import annotations

import base64
import hmac
from urllib.parse import urlencode

from ...core.errors import SecretError
from ...core.settings import Settings
from ..access.secrets import Secrets
from ..runtime.clock import Clock

GOOD_S = 7 * 86_400.0
PURPOSE = "pictures"


class Pictures:
    """Makes and checks addresses. They are good until the keys of secrets change."""

    def __init__(self, secrets: Secrets, settings: Settings, clock: Clock) -> None:
        self._secrets, self._settings, self._clock = secrets, settings, clock

    def address(self, job_id: str) -> str:
        """Return the address of a job's picture; "" where people cannot reach the API, or without a key."""
        if not (public := self._settings.api.public_url.rstrip("/")):
            return ""
        until_s = int(self._clock.wall_s() + GOOD_S)
        try:
            signed = _signature(self._secrets.derived(PURPOSE)[0], job_id, until_s)
        except SecretError:
            return ""
        return f"{public}/pictures/{job_id}.png?{urlencode({'until': until_s, 'signature': signed})}"

    def is_good(self, job_id: str, until_s: int, signature: str) -> bool:
        """Return whether an address was made here for a job, and has not expired. Raises: SecretError."""
        if until_s < self._clock.wall_s():
            return False
        told = signature.encode("utf-8", "replace")
        made = [_signature(key, job_id, until_s).encode() for key in self._secrets.derived(PURPOSE)]
        return any(hmac.compare_digest(told, one) for one in made)


def _signature(key: bytes, job_id: str, until_s: int) -> str:
    digest = hmac.digest(key, f"{job_id}.{until_s}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest[:24]).decode()
