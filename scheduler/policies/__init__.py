"""Allocation policies, one file each, by name."""

from . import sia as sia
from .registry import make_policy, policy_names, register

__all__ = ["make_policy", "policy_names", "register"]
