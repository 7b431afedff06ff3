"""What goes wrong with checkpoints: what they hold, or the storage that they lie in."""

from __future__ import annotations

# No second try mends these.
_LASTING = (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)


class CheckpointError(RuntimeError):
    """Raised where a checkpoint could not be written or read; the message is one sentence for a person."""


class StorageError(CheckpointError):
    """Raised where the storage failed, and neither the script nor what is stored is at fault."""


class MomentaryError(StorageError):
    """Raised where the storage failed in a way that may last only a moment."""


def storage_error(what: str, error: Exception) -> StorageError:
    kind = StorageError if isinstance(error, _LASTING) else MomentaryError
    return kind(f"{what}: {summary(error)}")


def summary(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
