"""The sender as a Ray actor on the service's own node. It outlives the service, and ends with `coadapt down`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...core.service_names import NAMESPACE
from .deliveries import SenderAway
from .letters import Letter
from .sender import Sender, Told

SENDER_NAME = "coadapt-sender"
ANSWER_S = 30.0


class RaySender:
    """The way to the sender's actor, which is made once there is something to send."""

    def __init__(self) -> None:
        self._handle: Any = None

    def exchange(self, epoch: int, confirmed: Sequence[int], letters: Sequence[Letter], wait_s: float) -> Told:
        """Do as `Sender.exchange`. Raises: SenderAway."""
        import ray
        from ray.exceptions import RayError

        try:
            if self._handle is None:
                self._handle = self._made() if letters else self._found()
            if self._handle is None:
                return Told()
            found: Told = ray.get(
                self._handle.exchange.remote(epoch, list(confirmed), list(letters), wait_s), timeout=ANSWER_S
            )
        except (RayError, TimeoutError) as error:
            self._handle = None
            raise SenderAway(f"the sender of webhooks does not answer: {str(error).splitlines()[0]}") from None
        return found

    def end(self) -> None:
        """End the actor, if there is one."""
        import ray
        from ray.exceptions import RayError

        with suppress(RayError, ValueError):
            ray.kill(ray.get_actor(SENDER_NAME, namespace=NAMESPACE), no_restart=True)
        self._handle = None

    def _found(self) -> Any:
        import ray

        with suppress(ValueError):
            return ray.get_actor(SENDER_NAME, namespace=NAMESPACE)
        return None

    def _made(self) -> Any:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = ray.get_runtime_context().get_node_id()
        return (
            ray.remote(Sender)
            .options(
                name=SENDER_NAME,
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                num_cpus=0,
                max_concurrency=4,
                scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
            )
            .remote()
        )
