"""Whose metadata service is asked whether it takes a node away."""

from __future__ import annotations

from enum import StrEnum


class Cloud(StrEnum):
    """A cloud that gives notice before it takes a node away."""

    NONE = "none"  # nobody is asked
    AWS = "aws"
    GCP = "gcp"
    AZURE = "azure"
    AUTO = "auto"  # each node finds out which one answers
