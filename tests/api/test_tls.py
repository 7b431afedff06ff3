"""With TLS, the machine of the API knows its certificate by itself, and others by a CA that they know."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.api.app import make_app
from coadapt.api.serve import Server
from coadapt.client.client import Client
from coadapt.client.cluster_record import ClusterRecord, LocalClusterError
from coadapt.client.http_api import HttpApi, NoClusterError
from coadapt.core.api_settings import ApiSettings
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster

from tests.support.api import Api, DirectScheduler


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """Make a certificate for the host name `head`; return its file and that of its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=head", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return str(cert), str(key)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ClusterRecord]:
    """Serve an API with TLS, and yield its record with the token of an operator."""
    api = Api(tmp_path)
    cert, key = certificate(tmp_path, "own")
    settings = ApiSettings(host="127.0.0.1", tls_cert=cert, tls_key=key)
    server = Server(make_app(DirectScheduler(api.service), settings), settings, 0)
    token = tmp_path / "api_token"
    token.write_text(api.tokens["ops"])
    yield ClusterRecord(
        "", url=f"https://{settings.reached_at}:{server.port}", api_token_path=str(token), tls_cert=cert
    )
    server.stop()
    api.world.store.close()


def test_its_own_machine_knows_the_certificate(served: ClusterRecord, tmp_path: Path) -> None:
    assert Client.connect(served, 0.0).me()["user"] == "ops"
    with pytest.raises(NoClusterError, match=r"self-signed certificate .*; SSL_CERT_FILE names a file"):
        HttpApi(served.url, served.token(), 0.0).get("/v1/me")
    other, _ = certificate(tmp_path, "other")
    with pytest.raises(NoClusterError, match="Fingerprints did not match"):
        Client.connect(replace(served, tls_cert=other), 0.0).me()


def test_an_api_of_all_addresses_is_reached_on_loopback() -> None:
    assert ApiSettings(host="0.0.0.0", trusted_proxies=("10.0.0.1",)).reached_at == "127.0.0.1"
    assert ApiSettings(host="::", trusted_proxies=("10.0.0.1",)).reached_at == "[::1]"


def test_a_certificate_that_is_not_there_is_told_where_it_would_be_used(tmp_path: Path) -> None:
    told = ApiSettings(tls_cert="/nowhere/cert.pem", tls_key="/nowhere/key.pem")  # as a client elsewhere reads it
    with pytest.raises(LocalClusterError, match=r"^api\.tls_cert: /nowhere/cert\.pem is not a file$"):
        local_cluster.up("1x t4:1", settings=Settings(state_dir=str(tmp_path), api=told))
