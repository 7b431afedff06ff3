"""Events go to public addresses by https, and to what an operator has named."""

from __future__ import annotations

import pytest
from coadapt.core.receivers import address_problem, url_problem

METADATA = "a cloud's metadata service, to which nothing is sent"
PUBLIC = "public addresses are accepted, and what an operator names in `webhooks.allowed`"
REFUSED = {
    "http://169.254.169.254/latest/meta-data": f"169.254.169.254 is {METADATA}",
    "https://[fd00:ec2::254]/x": f"fd00:ec2::254 is {METADATA}",
    "https://[::ffff:169.254.169.254]/x": f"::ffff:169.254.169.254 is 169.254.169.254, {METADATA}",
    "https://2852039166/x": f"2852039166 is 169.254.169.254, {METADATA}",
    "https://0xa9fea9fe/x": f"0xa9fea9fe is 169.254.169.254, {METADATA}",
    "https://metadata.google.internal/x": f"https://metadata.google.internal/… is {METADATA}",
    "https://127.0.0.1:8420/v1/jobs": f"127.0.0.1 is this machine itself; {PUBLIC}",
    "https://127.1/x": f"127.1 is 127.0.0.1, this machine itself; {PUBLIC}",
    "https://[::1]/x": f"::1 is this machine itself; {PUBLIC}",
    "https://0.0.0.0/x": f"0.0.0.0 is this machine itself; {PUBLIC}",
    "https://localhost/x": f"https://localhost/… is this machine itself; {PUBLIC}",
    "https://a.localhost/x": f"https://a.localhost/… is this machine itself; {PUBLIC}",
    "https://169.254.1.1/x": f"169.254.1.1 is an address of one link only; {PUBLIC}",
    "https://10.1.2.3/x": f"10.1.2.3 is no public address; {PUBLIC}",
    "https://100.64.0.1/x": f"100.64.0.1 is no public address; {PUBLIC}",
    "https://[fd12::1]/x": f"fd12::1 is no public address; {PUBLIC}",
    "https://224.0.0.1/x": f"224.0.0.1 is no public address; {PUBLIC}",
    "https://[64:ff9b::a01:203]/x": f"64:ff9b::a01:203 is 10.1.2.3, no public address; {PUBLIC}",
    "http://hooks.example.com/x": "http://hooks.example.com/… is not encrypted; a URL of https is accepted",
    "https://ann:pass@hooks.example.com/x": (
        "https://hooks.example.com/… has a user or a password in it; a URL without them is accepted"
    ),
    "https://hooks.example.com/x#y": (
        "https://hooks.example.com/… has a fragment, which no server sees; a URL without # is accepted"
    ),
    "ftp://hooks.example.com/x": "ftp://… is not a URL such as https://hooks.example.com/coadapt",
    "https://": "https:// is not a URL such as https://hooks.example.com/coadapt",
    "https://hooks.example.com:99999/": "https://hooks.example.com:99999/… is not a URL such as "
    "https://hooks.example.com/coadapt",
    f"https://hooks.example.com/{'x' * 2000}": "the URL has 2026 characters; at most 2000 are accepted",
}


@pytest.mark.parametrize("url", REFUSED, ids=[url[:60] for url in REFUSED])
def test_a_url_that_leads_into_the_cluster_or_is_in_the_clear_is_refused(url: str) -> None:
    assert url_problem(url) == REFUSED[url]


@pytest.mark.parametrize(
    "url", ["https://hooks.example.com/a?b=c", "https://8.8.8.8:8443/", "https://[2606:4700::1]/"]
)
def test_a_public_url_of_https_is_accepted(url: str) -> None:
    assert url_problem(url) == ""


def test_an_operator_names_networks_addresses_and_hosts() -> None:
    allowed = ("10.1.0.0/16", "hooks.lan", "127.0.0.1")
    for url in ("http://10.1.2.3/x", "http://hooks.lan/x", "http://127.0.0.1:99/x", "http://localhost:99/x"):
        assert url_problem(url, allowed) == "", url
    assert url_problem("http://10.2.0.1/x", allowed) == f"10.2.0.1 is no public address; {PUBLIC}"
    assert address_problem("192.168.0.7", "hooks.lan", allowed) == "", "whatever a named host leads to"
    assert address_problem("192.168.0.7", "other.lan", allowed).startswith("other.lan is 192.168.0.7, no public")


def test_no_setting_opens_the_metadata_service() -> None:
    for allowed in (("169.254.0.0/16",), ("169.254.169.254",), ("0.0.0.0/0",), ("hooks.lan",)):
        assert METADATA in url_problem("http://169.254.169.254/", allowed)
        assert METADATA in address_problem("169.254.169.254", "hooks.lan", allowed)
