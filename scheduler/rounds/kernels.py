"""Compiles the solver's kernels in a child process, so that the service answers meanwhile.

    python -m coadapt.scheduler.rounds.kernels coadapt '{}'

This command compiles what a policy's rounds call into numba's cache. It is needed once per install.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ...policies.warm_up import telling, warm_up

log = logging.getLogger(__name__)


class _NotCompiledError(BaseException):
    """Ends a warm-up at the first kernel that is not in the cache. No policy catches it."""


def load_kernels(policy: str, options: Mapping[str, Any], compiling: Callable[[], None]) -> None:
    """Load the kernels that a policy's rounds call. A child process compiles those that are not in the cache.

    If the child fails, this process compiles them itself.

    Args:
        compiling: called before anything is compiled.
    """

    def missing() -> None:
        raise _NotCompiledError

    try:
        with telling(missing):
            warm_up(policy, options)
    except _NotCompiledError:
        compiling()
        _compile_in_child(policy, options)
        warm_up(policy, options)


def _compile_in_child(policy: str, options: Mapping[str, Any]) -> None:
    command = [sys.executable, "-m", __name__, policy, json.dumps(dict(options))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        log.warning("compiling the solver's kernels in a process of its own failed: %s", done.stderr.strip())


if __name__ == "__main__":
    warm_up(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
