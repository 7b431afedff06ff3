"""Where the HTTP API listens, and whom it believes."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

DEFAULT_PORT = 8420


class ApiSettings(BaseModel):
    """Options of the HTTP API.

    host: an address of this machine. Without TLS or a trusted proxy it must be one that only this machine reaches.
    port: by default 8420, or a free one where that is taken.
    tls_cert, tls_key: files in PEM form.
    trusted_proxies: addresses of proxies that say who asks, in the header `user_header`.
    public_url: by which people reach it from elsewhere, such as https://coadapt.example.com; messages link to it.
    metrics_token_file: a file with a token that reads `/metrics` and nothing else. Without one every user may with
        a token of its own, and on a machine whose API listens on loopback whoever is on that machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    user_header: str = "X-Forwarded-User"
    public_url: Annotated[str, Field(pattern=r"^(https?://[^\s?#]+)?$", max_length=500)] = ""
    metrics_token_file: str | None = None

    @field_validator("host", "trusted_proxies")
    @classmethod
    def _addresses(cls, told: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for one in (told,) if isinstance(told, str) else told:
            try:
                ip_address(one)
            except ValueError:
                raise ValueError(f"{one} is not an IP address, such as 127.0.0.1") from None
        return told

    @model_validator(mode="after")
    def _is_safe(self) -> ApiSettings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key are given together or not at all")
        if not ip_address(self.host).is_loopback and self.tls_cert is None and not self.trusted_proxies:
            raise ValueError(
                f"host: {self.host} is reached from other machines; give tls_cert and tls_key, or trusted_proxies"
            )
        return self

    def metrics_token(self) -> str | None:
        """Return the token that reads metrics; None: there is none to be. A file without one lets nobody in."""
        if self.metrics_token_file is None:
            return None
        try:
            return Path(self.metrics_token_file).read_text().strip()
        except OSError:
            return ""

    def missing(self) -> str:
        """Return which file is not there, on the machine that serves the API, in one sentence, or ""."""
        for name in ("tls_cert", "tls_key", "metrics_token_file"):
            if (path := getattr(self, name)) is not None and not Path(path).is_file():
                return f"api.{name}: {path} is not a file"
        return ""

    @property
    def reached_at(self) -> str:
        """Return the host part of a URL by which its own machine reaches it."""
        host = ip_address(self.host)
        if host.is_unspecified:
            return "127.0.0.1" if host.version == 4 else "[::1]"
        return self.host if host.version == 4 else f"[{self.host}]"

    @property
    def scheme(self) -> str:
        """Return `http` or `https`."""
        return "http" if self.tls_cert is None else "https"
