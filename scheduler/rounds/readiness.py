"""Loads the kernels that rounds call, and knows whether rounds can run."""

from __future__ import annotations

import logging
import threading

from ...core.settings import Settings
from ...policies.warm_up import COMPILING
from ..nodes.node_source import NodeSource
from .kernels import load_kernels

log = logging.getLogger(__name__)


class Readiness:
    """Whether rounds can run: the nodes are known and the solver is compiled.

    `warm`: set once kernels are loaded.
    """

    def __init__(self, settings: Settings, nodes: NodeSource) -> None:
        self._settings, self._nodes = settings, nodes
        self.warm = threading.Event()
        self._compiling = False

    @property
    def ready(self) -> bool:
        """Whether rounds can run."""
        return self._nodes.snapshot.ready and self.warm.is_set()

    @property
    def compiling(self) -> bool:
        """Whether the first round waits only for its kernels, which are compiled once per install."""
        return self._compiling and self._nodes.snapshot.ready and not self.warm.is_set()

    def warm_up(self) -> None:
        """Load the kernels that rounds call. The service answers while they are compiled."""

        def compiling() -> None:
            self._compiling = True
            log.info(COMPILING)

        try:
            load_kernels(self._settings.policy, self._settings.policy_options, compiling)
        finally:
            self.warm.set()  # rounds compile what is missing
