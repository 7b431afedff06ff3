"""What rounds need of the cluster: its nodes as they are now."""

from __future__ import annotations

from typing import Protocol

from .node_view import NodesSnapshot


class NodeSource(Protocol):
    """Knows the nodes of the cluster, as `node_view.NodeView` does."""

    @property
    def snapshot(self) -> NodesSnapshot:
        """Return the newest snapshot."""
