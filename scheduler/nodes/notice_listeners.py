"""Keeps a listener on every node, where a cloud is to be asked, and passes on what they hear."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ray

from ...core.cloud import Cloud
from ...core.settings import Settings
from ...executor.light_actor import light
from ..runtime.clock import Clock
from .closing_nodes import ClosingNodes
from .node_view import NodesSnapshot
from .notice_listener import Heard, NoticeListener

log = logging.getLogger(__name__)

WAIT_S = 30.0  # a listener answers by then, also where nothing is new
AGAIN_S = 5.0  # until a listener is made in place of one that was lost
NODE_LABEL = "ray.io/node-id"  # Ray's own


@dataclass
class _Listening:
    """A listener on a node. `how`: what it was made with."""

    how: tuple[str, str, float]
    handle: Any = None
    trouble: str = ""


class NoticeListeners:
    """Makes listeners on new nodes, and ends those that are not needed any more.

    Args:
        changed: called when a notice has come or gone.
    """

    def __init__(
        self, settings: Settings, closing: ClosingNodes, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._settings, self._closing, self._clock, self._changed = settings, closing, clock, changed
        self._on: dict[str, _Listening] = {}  # by node id
        self._not_before_s: dict[str, float] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="notices")  # Ray's control plane may be away

    def look(self, nodes: NodesSnapshot) -> None:
        """Have a listener on each leased node that is here, and no other."""
        wanted: dict[str, tuple[str, str, float]] = {}
        if self._settings.cloud is not Cloud.NONE:
            for node in (*nodes.cluster.nodes, *nodes.closed_nodes):
                url = self._settings.metadata_url.replace("{machine}", node.machine_name)
                wanted[node.id] = (self._settings.cloud.value, url, self._settings.metadata_every_s)
        for node_id, one in list(self._on.items()):
            if wanted.get(node_id) != one.how:
                self._end(node_id)
        now = self._clock.monotonic_s()
        for node_id in wanted.keys() - self._on.keys():
            if now >= self._not_before_s.get(node_id, 0.0):
                self._on[node_id] = _Listening(wanted[node_id])
                self._thread.submit(self._guarded, node_id, self._make)

    def notes(self) -> list[str]:
        """Return a sentence where clouds do not answer."""
        troubles = [one.trouble for one in list(self._on.values()) if one.trouble]
        if not troubles:
            return []
        count = f"{len(troubles)} node{'s' * (len(troubles) > 1)}"
        whose = "" if self._settings.cloud is Cloud.AUTO else f" of {self._settings.cloud}"
        return [f"{count} would not hear of a spot notice{whose}: {troubles[0]}"]

    def stop(self) -> None:
        """End all listeners."""
        for node_id in list(self._on):
            self._end(node_id)
        self._thread.shutdown(wait=True)

    # --- inside the thread ------------------------------------------------------------------------------------

    def _guarded(self, node_id: str, work: Callable[[str, _Listening], None]) -> None:
        if (one := self._on.get(node_id)) is None:
            return
        try:
            work(node_id, one)
        except Exception as error:  # its node has gone, Ray is away, or nothing can be stored now
            log.warning("notices of node %s: %s", node_id[:8], str(error).splitlines()[0] if str(error) else error)
            self._not_before_s[node_id] = self._clock.monotonic_s() + AGAIN_S
            self._end(node_id)

    def _make(self, node_id: str, one: _Listening) -> None:
        one.handle = (
            ray.remote(light(NoticeListener))
            .options(num_cpus=0, max_concurrency=2, label_selector={NODE_LABEL: node_id})
            .remote(*one.how)
        )
        self._ask(node_id, one, 0)

    def _ask(self, node_id: str, one: _Listening, number: int) -> None:
        ref = one.handle.heard.remote(number, WAIT_S)

        def answered(future: Future[Heard]) -> None:
            self._thread.submit(self._guarded, node_id, lambda _, now: self._hear(node_id, now, one, future))

        ref.future().add_done_callback(answered)

    def _hear(self, node_id: str, now: _Listening, one: _Listening, future: Future[Heard]) -> None:
        if now is not one:  # another one was made in its place
            return
        heard = future.result()
        one.trouble = heard.trouble
        if heard.notice is not None:
            new = self._closing.take_notice(node_id, *heard.notice)
        else:
            new = not heard.trouble and heard.number > 0 and self._closing.no_notice(node_id)
        if new:
            self._changed()
        self._ask(node_id, one, heard.number)

    def _end(self, node_id: str) -> None:
        one = self._on.pop(node_id, None)
        if one is not None and one.handle is not None:
            try:
                ray.kill(one.handle)
            except Exception as error:
                log.warning("notices of node %s: its listener is not ended: %s", node_id[:8], error)
