"""Starting the scheduler service on a cluster that Ray runs on."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..client.client import RETRY_S, Client, NoClusterError, connected_ray
from ..client.cluster_record import ClusterRecord
from ..core.schemas import ClusterView
from ..core.service_names import NAMESPACE, SERVICE_NAME
from ..core.settings import Settings
from ..executor.light_actor import light


class SettingsError(RuntimeError):
    """A scheduler runs already, and not as asked for; one sentence for a person."""


def start_service(
    record: ClusterRecord, settings: Settings, tell: Callable[[str], None] = lambda text: None, rounds: bool = True
) -> Client:
    """Start the service on a cluster unless it runs, and wait until every node started with it is leased.

    Args:
        tell: called with the line that says that kernels are compiled.
        rounds: whether to wait also for the solver's kernels, which the first start after an install compiles.
            Else jobs wait for their first round.

    Raises: ValueError for an unknown policy or option, NoClusterError, SettingsError if it already runs with other
        settings.
    """
    # What the service needs is not loaded for the other verbs: the solver alone takes half a second.
    from ..policies.catalogue import make_policy

    make_policy(settings.policy, **settings.policy_options)
    ray = connected_ray(record)
    from ..policies.warm_up import COMPILING
    from ..scheduler.service import SchedulerService

    on_head = any(node["Labels"].get("role") == "head" for node in ray.nodes() if node["Alive"])
    service = (
        ray.remote(light(SchedulerService))
        .options(
            name=SERVICE_NAME,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=-1,
            num_cpus=0,
            max_concurrency=32,
            label_selector={"role": "head"} if on_head else {},
        )
        .remote(settings)
    )
    client = Client(service, settings)
    running = Settings.model_validate(client.call("settings"))
    if running != settings:
        raise SettingsError(_difference(running, settings))
    deadline, told = time.monotonic() + RETRY_S, False
    while True:
        compiling = client.call("compiling")
        if compiling and not told:
            tell(COMPILING)
            told = True
        answers = client.call("ping") or (compiling and not rounds)
        if answers and _nodes_there(client.cluster()) >= len(record.nodes):
            break
        if compiling:
            deadline = time.monotonic() + RETRY_S
        if time.monotonic() > deadline:
            raise NoClusterError(f"the nodes of the cluster could not be leased in {RETRY_S:.0f} s")
        time.sleep(0.05)
    return client


def _nodes_there(cluster: ClusterView) -> int:
    """Return how many nodes are leased, or known to be away."""
    return len(cluster["nodes"]) + len(cluster["asleep"])


def _difference(running: Settings, asked: Settings) -> str:
    have, want = running.model_dump(), asked.model_dump()
    fields = ", ".join(f"{name} {have[name]!r} (not {want[name]!r})" for name in have if have[name] != want[name])
    return (
        f"a scheduler runs there already, with {fields}; to change that, `coadapt down` and up again: jobs go on"
    )
