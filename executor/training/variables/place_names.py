"""Names of variables that say where a process is and not how far it is: its rank, its device, its seed."""

from __future__ import annotations

import re
from typing import Any

_PLACE = re.compile(r"rank|world|devices?|n?gpus?|cuda|pid|host|hostname|port|addr|address|seed")
_FIRST = re.compile(r"main|master")  # These say so only where they are true or false.
# What stands beside such a word where the name says no more than that.
_BESIDE = re.compile(
    r"my|local|global|node|group|process|proc|worker|dist|ddp|distributed|parallel|mpi|slurm|is|on|of|per|size|ids?"
    r"|index|idx|num|n|no|number|count|name|type|base|random|rng|manual|torch|numpy|np|current|cur|this|train"
    r"|training|target|zero"
)
_KINDS = (bool, int, str, type(None), list, tuple)


def is_of_place(name: Any, value: Any) -> bool:
    """Return whether all words of a name are such: `local_rank` and `is_main_process`, but not `main_loss`."""
    if type(value) not in _KINDS or not isinstance(name, str):
        return False
    words = re.findall(r"[a-z]+", name.lower())
    telling = (_PLACE, _FIRST) if type(value) in (bool, str) else (_PLACE,)
    if not any(pattern.fullmatch(word) for word in words for pattern in telling):
        return False
    return all(any(p.fullmatch(word) for p in (_PLACE, _FIRST, _BESIDE)) for word in words)
