"""Starts the actors of studies on the cluster."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from ..client.cluster_record import ClusterRecord
from ..core.api_settings import ApiSettings
from ..core.service_names import NAMESPACE
from ..tuning.live.actor import NAME, StudyActor
from .studies import Studies


class StudiesOnRay(Studies):
    """Starts an actor for each study, on the machine of this API, which has the studies' folders."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self._begin_actor, _look)
        self._address: tuple[str, str | None] | None = None

    def serve(self, settings: ApiSettings, port: int) -> None:
        """Let studies go on that are not over, now that the API answers on a port."""
        fingerprint = ClusterRecord("", tls_cert=settings.tls_cert or "").fingerprint()
        self._address = f"{settings.scheme}://{settings.reached_at}:{port}", fingerprint
        self.go_on()

    def _begin_actor(self, id: str, folder: Path) -> None:
        """Start the actor of a study unless it is there."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        assert self._address is not None
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options: dict[str, Any] = {
            "name": f"{NAME}{id}",
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "get_if_exists": True,
            "max_restarts": -1,
            "max_task_retries": 0,
            "num_cpus": 0,
            "max_concurrency": 2,
            "scheduling_strategy": here,
        }
        ray.remote(StudyActor).options(**options).remote(str(folder), *self._address)


def _look(id: str) -> None:
    """Tell the actor of a study that something has changed; one that is gone looks when it starts again."""
    import ray

    with suppress(ValueError):
        ray.get_actor(f"{NAME}{id}", namespace=NAMESPACE).look.remote()
