"""Errors that both a client and the service raise; each is one sentence for a person."""


class PackageError(ValueError):
    """A working directory that cannot be packed; one sentence for the user."""


class OutputError(RuntimeError):
    """Outputs could not be read or written; one sentence for a person."""


class JobStateError(ValueError):
    """A job is not where the user's verb could be done; one sentence that says what could be."""


class FunctionError(ValueError):
    """A function that cannot be submitted; one sentence for the user."""


class StateError(RuntimeError):
    """The service could not write its state, as on a full disk; one sentence for a person."""


class PowerError(ValueError):
    """A machine could not be powered off or on as asked; one sentence for a person."""


class KeyReusedError(ValueError):
    """An idempotency key came again with another request; one sentence that says what differs."""


class IdentityError(ValueError):
    """A user or a token is not what it should be; one sentence for a person."""


class StoreError(RuntimeError):
    """A job store cannot be used: a wrong version, held by another service, or no store."""


class SecretError(ValueError):
    """A secret is not there, cannot be opened or is not accepted; one sentence that never holds its value."""


class WebhookError(ValueError):
    """A webhook cannot be made, or a job names one that is not there; one sentence for a person."""


class SettingError(ValueError):
    """A setting cannot be changed so, or not while the scheduler runs; one sentence for a person."""


class TeamsError(ValueError):
    """A file of teams cannot be applied as it is; one sentence for a person."""


class NodeOrderError(ValueError):
    """A node cannot be drained, cordoned or opened as asked; one sentence for a person."""


class WhatIfError(ValueError):
    """A question of what would be that cannot be answered; one sentence for a person."""
