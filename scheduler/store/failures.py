"""What may go wrong with a store, in one sentence each."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ...core.errors import StateError, StoreError

__all__ = ["LostStore", "StoreError", "StoreFailure", "in_words"]


class StoreFailure(StoreError, StateError):
    """The store does not read or write now. Nothing was changed; the same may work later."""


class LostStore(StoreError):
    """Another service has taken the store over. This one must not write to it any more."""


def in_words(error: SQLAlchemyError) -> str:
    """Return what the database says, without the statement."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(cause).split()) or type(cause).__name__
