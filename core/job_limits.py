"""What a job may not ask for, though its fields have the right form. Client and service both check this. Pure.

A stored job is not checked again: what an earlier version accepted stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from .job import JobSpec
from .refused_values import shown

MOST_BYTES = 512 << 10  # of a job as JSON
MOST_VARIABLES = 1000
ENV_BYTES = 128 << 10  # of names and values together; the kernel takes no more of one
MOST_WORDS = 10_000  # of args, command and pip, each
WORDS_BYTES = 256 << 10
PATH_CHARACTERS = 1024
# File systems that keep what is written: others only read, or name a second one behind a `::`.
SCHEMES = (
    *("file", "local", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hdfs", "webhdfs"),
    *("sftp", "ssh", "smb", "oss", "oci", "cos", "hf", "memory"),
)
_GPUS = frozenset(
    (
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        *("NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES"),
        *("HABANA_VISIBLE_MODULES", "TPU_VISIBLE_CHIPS"),
    )
)
_RANKS = frozenset(("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"))
# `NUM_TOKENS` and `TOKENIZERS_PARALLELISM` are none.
_SECRET = re.compile(
    r"(?:(?:KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?|TOKEN|AUTH|_PWD)(?:[_-]|[0-9]*$)", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)(?=@)")  # user and password
MASK = "••••••"


class JobLimitError(ValueError):
    """A job that is not accepted; one sentence per line, each `field: …`."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def refusals(spec: JobSpec) -> list[str]:
    """Return what a job may not have, one sentence each that names the field, the value and what is accepted."""
    found = [f"env.{name}: {why}" for name, value in spec.env.items() if (why := _variable(name, value))]
    found += [f"secrets.{name}: {why}" for name in spec.secret_env if (why := _variable(name, ""))]
    found += [f"env.{name}: holds a NUL character; text without it is accepted" for name in _with_nul(spec.env)]
    size = sum(len(name.encode()) + len(value.encode(errors="replace")) + 2 for name, value in spec.env.items())
    if len(spec.env) > MOST_VARIABLES:
        found.append(f"env: has {len(spec.env)} variables; at most {MOST_VARIABLES} are accepted")
    if len(spec.secret_env) > MOST_VARIABLES:
        found.append(f"secrets: has {len(spec.secret_env)} names; at most {MOST_VARIABLES} are accepted")
    if size > ENV_BYTES:
        found.append(f"env: has {size} bytes; at most {ENV_BYTES} are accepted, and larger things are files")
    for field in ("args", "command", "pip"):
        found += _words(field, getattr(spec, field))
    for field, path in (("script", spec.script), ("working_dir", spec.working_dir)):
        if len(path) > PATH_CHARACTERS:
            found.append(f"{field}: has {len(path)} characters; at most {PATH_CHARACTERS} are accepted")
    if (url := spec.training.checkpoint.url) is not None and (why := _url(url)):
        found.append(f"training.checkpoint.url: {why}")
    return found


def sent_refusals(spec: JobSpec) -> list[str]:
    """Return what a job may not have that comes without its folder being looked at: the service's part."""
    found = refusals(spec)
    if spec.script and not _is_inside(spec.script):
        found.append(f"script: {shown(spec.script)} is outside the working folder; a path inside it is accepted")
    elif spec.script and not spec.script.endswith(".py"):
        found.append(f"script: {shown(spec.script)} is not a Python file (.py)")
    return found


def is_secret(name: str) -> bool:
    """Return whether a variable's name looks as if its value were a secret."""
    return _SECRET.search(name) is not None


def masked(env: Mapping[str, str]) -> dict[str, str]:
    """Return variables as they may be shown: without secrets, by their names, and passwords in addresses."""
    return {
        name: MASK if value and is_secret(name) else _IN_ADDRESS.sub(rf"\1:{MASK}", value)
        for name, value in env.items()
    }


def without_secrets(value: Any) -> Any:
    """Return data as it may be shown: without values whose names look like those of secrets."""
    if isinstance(value, Mapping):
        return {
            name: MASK if one and isinstance(one, str) and is_secret(str(name)) else without_secrets(one)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(one) for one in value]
    return _IN_ADDRESS.sub(rf"\1:{MASK}", value) if isinstance(value, str) else value


def _variable(name: str, value: str) -> str:
    """Return why a job may not set a variable, or ""."""
    told = MASK if is_secret(name) else shown(value)
    if name in _GPUS:
        return f"{told} would name GPUs, which coadapt does for each process; ask for GPUs under resources"
    if name in _RANKS or name.startswith("TORCHELASTIC_"):
        return "set by coadapt for each worker and cannot be given"
    if name.startswith("RAY_"):
        return f"{told} is of Ray, which a job knows nothing of; names without RAY_ are accepted"
    if name.startswith(("LD_", "DYLD_")) and name not in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        return f"{told} would change what every program loads; LD_LIBRARY_PATH is accepted"
    return ""


def _with_nul(env: Mapping[str, str]) -> list[str]:
    return [name for name, value in env.items() if "\0" in value]


def _words(field: str, words: list[str]) -> list[str]:
    size = sum(len(word.encode(errors="replace")) + 1 for word in words)
    if len(words) > MOST_WORDS:
        return [f"{field}: has {len(words)} entries; at most {MOST_WORDS} are accepted"]
    if size > WORDS_BYTES:
        return [f"{field}: has {size} bytes; at most {WORDS_BYTES} are accepted"]
    return []


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts


def _url(url: str) -> str:
    if "\0" in url:
        return "holds a NUL character; a path or a URL is accepted"
    if len(url) > PATH_CHARACTERS:
        return f"has {len(url)} characters; at most {PATH_CHARACTERS} are accepted"
    scheme, separator, _ = url.partition("://")
    if "::" in url or (separator and scheme.lower() not in SCHEMES):
        known = ", ".join(SCHEMES[2:-1])
        return f"{shown(url)} is of no storage that keeps checkpoints; accepted are a path and URLs of {known}"
    return ""
