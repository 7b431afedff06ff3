"""The keys with which secrets are sealed: in a file of mode 0600 beside the store, or given by the environment.

No backup holds them. A line is a key in base64; the first one seals, and the others still open.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import SecretError

VARIABLE = "COADAPT_SECRET_KEYS"  # keys in base64, with commas between; instead of a file
KEY_BYTES, NONCE_BYTES = 32, 12


@dataclass(frozen=True, repr=False)
class Key:
    """One key. `id` names it and tells nothing of it."""

    value: bytes

    @property
    def id(self) -> str:
        """Return its name."""
        return hashlib.sha256(b"coadapt secret key" + self.value).hexdigest()[:12]

    def seal(self, text: str, bound: str) -> str:
        """Return a text sealed. It opens only with what it is bound to, so that no row stands in for another."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(NONCE_BYTES)
        return base64.b64encode(nonce + AESGCM(self.value).encrypt(nonce, text.encode(), bound.encode())).decode()

    def open(self, sealed: str, bound: str) -> str | None:
        """Return the text; None where it was not sealed with this key, or is bound to something else."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            data = base64.b64decode(sealed, validate=True)
            return AESGCM(self.value).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound.encode()).decode()
        except (InvalidTag, binascii.Error, ValueError):
            return None


class SecretKeys:
    """The keys of one cluster. They are read when they are needed, as the file may come back later."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def where(self) -> str:
        """Return where the keys are, for a sentence."""
        return VARIABLE if os.environ.get(VARIABLE) else str(self.path)

    def all(self) -> list[Key]:
        """Return all keys, that which seals first. Raises: SecretError for a file that cannot be used."""
        if told := os.environ.get(VARIABLE):
            return [self._key(part) for part in told.split(",")]
        try:
            lines = self.path.read_text().split()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise SecretError(f"{self.path}: the keys of secrets cannot be read: {error}") from None
        return [self._key(line) for line in lines]

    def sealing(self) -> Key:
        """Return the key that seals, made anew where there is none. Raises: SecretError."""
        if found := self.all():
            return found[0]
        self._write([key := Key(os.urandom(KEY_BYTES))])
        return key

    def begin_new(self) -> Key:
        """Put a new key before the others, and return it. Keys of the environment are changed there.

        Raises: SecretError.
        """
        if os.environ.get(VARIABLE):
            return self.sealing()
        self._write([key := Key(os.urandom(KEY_BYTES)), *self.all()])
        return key

    def keep(self, ids: set[str]) -> None:
        """Forget all keys but these, where they are in a file."""
        if not os.environ.get(VARIABLE):
            self._write([key for key in self.all() if key.id in ids])

    def _key(self, text: str) -> Key:
        try:
            value = base64.b64decode(text.strip(), validate=True)
        except binascii.Error:
            value = b""
        if len(value) != KEY_BYTES:
            raise SecretError(
                f"{self.where}: holds what is no key of secrets; a key is {KEY_BYTES} bytes in base64"
            )
        return Key(value)

    def _write(self, keys: list[Key]) -> None:
        """Write the file beside the old one, then in its place: it is never half there."""
        partial = self.path.with_name(f"{self.path.name}.new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial.unlink(missing_ok=True)
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write("".join(f"{base64.b64encode(key.value).decode()}\n" for key in keys))
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.path)
        except OSError as error:
            raise SecretError(f"{self.path}: the keys of secrets cannot be written: {error}") from None
