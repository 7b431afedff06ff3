"""All policies by name. Importing this module registers every one of them."""

from . import coadapt, fifo, gavel, las, lucid, max_min, packed, pollux, qssf, shockwave, sia, sjf, srtf, themis
from .registry import make_policy, options_model, policy_class, policy_names, register

__all__ = [
    "coadapt",
    "fifo",
    "gavel",
    "las",
    "lucid",
    "make_policy",
    "max_min",
    "options_model",
    "packed",
    "policy_class",
    "policy_names",
    "pollux",
    "qssf",
    "register",
    "shockwave",
    "sia",
    "sjf",
    "srtf",
    "themis",
]
