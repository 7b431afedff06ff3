"""Asks the metadata service of the cloud that a node runs in. Each request has a short time-out, and no proxy."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException

from ...core.cloud import Cloud
from ..runtime.clock import Clock
from .notices import MetadataError, Notice, of_aws, of_azure, of_gcp

URL = "http://169.254.169.254"
TIMEOUT_S = 2.0
MOST_BYTES = 64 << 10
TOKEN_S = 21_600
TOKEN_HEADER = "X-aws-ec2-metadata-token"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A metadata service sends nobody elsewhere."""

    def redirect_request(self, *args: object) -> None:
        return None


class MetadataService:
    """The metadata service as one node sees it.

    Args:
        url: where it is; "": where clouds have it.
    """

    def __init__(self, cloud: Cloud, clock: Clock, url: str = "") -> None:
        self._clock, self._url = clock, (url or URL).rstrip("/")
        self._cloud: Cloud | None = None if cloud is Cloud.AUTO else cloud
        self._token = ""
        self._preempted_s: float | None = None  # since when GCP says so
        self._name: str | None = None  # what Azure calls this machine
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects).open

    def ask(self) -> Notice | None:
        """Return the notice that there is.

        Raises: MetadataError where it does not say; OSError where it is away.
        """
        if self._cloud is not None:
            return self._askers[self._cloud]()
        for cloud, asker in self._askers.items():
            try:
                found = asker()
            except (MetadataError, OSError):
                continue
            self._cloud = cloud
            return found
        raise MetadataError("no cloud's metadata service answers here")

    @property
    def _askers(self) -> Mapping[Cloud, Callable[[], Notice | None]]:
        return {Cloud.AWS: self._aws, Cloud.GCP: self._gcp, Cloud.AZURE: self._azure}

    def _aws(self) -> Notice | None:
        for fresh in (False, True):
            if not self._token or fresh:
                headers = {f"{TOKEN_HEADER}-ttl-seconds": str(TOKEN_S)}
                status, self._token = self._fetch("/latest/api/token", headers, "PUT")
                if status != 200:
                    raise MetadataError(f"aws: it gives no token, with status {status}")
            headers = {TOKEN_HEADER: self._token.strip()}
            status, body = self._fetch("/latest/meta-data/spot/instance-action", headers)
            if status != 401:  # else the token has expired
                break
        return of_aws(status, body, self._clock.wall_s())

    def _gcp(self) -> Notice | None:
        now = self._clock.monotonic_s()
        status, body = self._fetch("/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"})
        found = of_gcp(status, body, 0.0 if self._preempted_s is None else now - self._preempted_s)
        self._preempted_s = None if found is None else now if self._preempted_s is None else self._preempted_s
        return found

    def _azure(self) -> Notice | None:
        headers = {"Metadata": "true"}
        status, body = self._fetch(EVENTS, headers)
        if self._name is None:
            told, name = self._fetch(NAME, headers)
            self._name = name.strip() if told == 200 else ""
        return of_azure(status, body, self._name, self._clock.wall_s())

    def _fetch(self, path: str, headers: Mapping[str, str], method: str = "GET") -> tuple[int, str]:
        """Return status and text of an answer. Raises: OSError; MetadataError for what is no HTTP."""
        request = urllib.request.Request(self._url + path, headers=dict(headers), method=method)
        try:
            with self._open(request, timeout=TIMEOUT_S) as answer:
                return int(answer.status), answer.read(MOST_BYTES).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, ""
        except (HTTPException, ValueError) as error:
            raise MetadataError(f"its answer is no HTTP: {type(error).__name__}") from None
