"""The environment of a job's processes, built up from nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# What a process is given of its machine: where programs and libraries are, how they use its GPUs and cores.
_NAMES = frozenset(
    (
        *("PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "LD_LIBRARY_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    )
)
_PREFIXES = (
    *("LC_", "PYTHON", "MALLOC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "NUMEXPR_"),
    *("CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "HIP_", "HSA_", "ROCR_", "UCX_", "TORCH", "PYTORCH_"),
)
_ADDRESSES = frozenset(
    ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
)
MARK = "COADAPT_CLUSTER_ID"  # by which `coadapt down` finds what belongs to a local cluster


def around(environment: Mapping[str, str], passed: Sequence[str] = ()) -> dict[str, str]:
    """Return the part of a worker's environment that its job may see. An address with a password is none.

    passed: what the operator lets through besides; `AWS_*` names all that begin so.
    """
    return {name: value for name, value in environment.items() if _is_open(name, value, passed)}


def built(
    environment: Mapping[str, str], given: Mapping[str, str], home: str, user: str = "", passed: Sequence[str] = ()
) -> dict[str, str]:
    """Return the whole environment of a process.

    Args:
        environment: the worker's, of which little is taken.
        given: what the job's file and coadapt say.
        home: the process's own folder.
        user: what its user is called, where that has no account.
    """
    names = {"USER": user, "LOGNAME": user} if user else {}
    return {"LANG": "C.UTF-8", **around(environment, passed), **names, "HOME": home, **given}


def _is_open(name: str, value: str, passed: Sequence[str]) -> bool:
    if any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in passed):
        return True
    if name.upper() in _ADDRESSES:
        return "@" not in value
    return name in _NAMES or name == MARK or name.startswith(_PREFIXES)
