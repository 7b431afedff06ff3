"""Ray's own autoscaler with its fake provider: it starts and ends real raylets on this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from coadapt.client.cluster_record import ClusterRecord
from coadapt.deploy import local_cluster

FILE = Path(__file__).parents[2] / "deploy" / "autoscaler" / "fake_nodes.yaml"
HEAD = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"  # of the provider: its first node
START_S = 120.0


@contextmanager
def fake_cluster(changes: dict[str, Any] | None = None) -> Iterator[ClusterRecord]:
    """Yield a cluster that has only a head. All its processes are ended afterwards.

    Args:
        changes: of the file of the autoscaler.
    """
    folder = Path(tempfile.mkdtemp(prefix="coadapt-ray-"))
    record = ClusterRecord("", auth_mode="disabled", temp_dir=str(folder), mark=secrets.token_hex(8), started=True)
    (folder / "h").mkdir()
    port = _free_port()
    address = f"127.0.0.1:{port}"
    config = yaml.safe_load(FILE.read_text()) | (changes or {})
    config["provider"]["gcs_address"] = address
    (folder / "autoscaler.yaml").write_text(yaml.safe_dump(config))
    command = [
        str(Path(sys.executable).with_name("ray")),
        "start",
        "--head",
        f"--port={port}",
        "--node-ip-address=127.0.0.1",
        "--num-gpus=0",
        "--num-cpus=1",
        "--include-dashboard=false",
        "--disable-usage-stats",
        "--labels=role=head",
        f"--object-store-memory={local_cluster.OBJECT_STORE_BYTES}",
        f"--autoscaling-config={folder / 'autoscaler.yaml'}",
        f"--ray-client-server-port={_free_port()}",
    ]
    own = {name: value for name, value in os.environ.items() if name not in local_cluster.RAYS_OWN}
    env = own | {
        "RAY_TMPDIR": str(folder / "h"),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_FAKE_CLUSTER": "1",
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": HEAD,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD,
        "RAY_worker_niceness": "0",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        local_cluster.MARK: f"{record.mark}-h",
    }
    try:
        with (folder / "start.log").open("w") as log:
            done = subprocess.run(
                command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=START_S, check=False
            )
        if done.returncode:
            raise SystemExit(f"Ray did not start: {(folder / 'start.log').read_text()[-800:]}")
        try:
            yield replace(record, address=address)
        except SystemExit:
            for path in (folder / "h" / "ray" / "session_latest" / "logs").glob("monitor.*"):
                print(path.name, path.read_text(errors="replace")[-3000:], flush=True)
            raise
    finally:
        local_cluster.end_processes(record)
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
