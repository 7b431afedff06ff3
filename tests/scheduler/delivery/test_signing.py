"""A receiver can tell what comes from here, as Standard Webhooks has it."""

from __future__ import annotations

import base64

import pytest
from coadapt.scheduler.delivery.signing import headers, new_secret, signature

# The example of the public specification.
SECRET, ID, AT_S = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330


def test_a_signature_is_that_of_the_public_scheme() -> None:
    body = '{"test": 2432232314}'
    assert signature(SECRET, ID, AT_S, body) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers(SECRET, ID, AT_S, body) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_another_body_moment_or_id_has_another_signature() -> None:
    known = {signature(SECRET, ID, AT_S, "{}"), signature(SECRET, ID, AT_S + 1, "{}")}
    assert len(known | {signature(SECRET, ID + "x", AT_S, "{}"), signature(SECRET, ID, AT_S, "{ }")}) == 4


def test_secrets_are_random_and_of_the_form_that_libraries_read() -> None:
    one, other = new_secret(), new_secret()
    assert one != other
    assert len(base64.b64decode(one.removeprefix("whsec_"), validate=True)) == 32


def test_what_is_no_secret_signs_nothing() -> None:
    with pytest.raises(ValueError, match="not of the form whsec_ and base64"):
        signature("whsec_???", ID, AT_S, "{}")
    assert headers("", ID, AT_S, "{}") == {"webhook-id": ID, "webhook-timestamp": "1614265330"}
