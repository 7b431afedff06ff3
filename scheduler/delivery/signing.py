"""Signs what is sent, in the manner of Standard Webhooks, so that receivers know that it comes from here. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os

PREFIX = "whsec_"
KEY_BYTES = 32
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


def new_secret() -> str:
    """Return a new secret, which sender and receiver share."""
    return PREFIX + base64.b64encode(os.urandom(KEY_BYTES)).decode()


def signature(secret: str, sent_id: str, timestamp_s: int, body: str) -> str:
    """Return the signature of a message: HMAC-SHA256 over its id, the moment and its body.

    Raises: ValueError for what is no secret.
    """
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("the secret of a webhook is not of the form whsec_ and base64") from None
    signed = f"{sent_id}.{timestamp_s}.{body}".encode()
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(secret: str, sent_id: str, timestamp_s: int, body: str) -> dict[str, str]:
    """Return the headers of one try; each try has the same id and a time of its own."""
    found = {ID: sent_id, TIMESTAMP: str(timestamp_s)}
    return {**found, SIGNATURE: signature(secret, sent_id, timestamp_s, body)} if secret else found
