"""Whether Kubernetes and KubeRay take a manifest, and how the files of `deploy/` call `coadapt up`."""

from __future__ import annotations

import gzip
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
KUBERAY = ROOT / "deploy" / "kuberay" / "coadapt.yaml"
SLURM = ROOT / "deploy" / "slurm" / "coadapt.sbatch"
SYSTEMD = ROOT / "deploy" / "systemd"
# Where each file says how the scheduler is started.
STARTS = (SYSTEMD / "coadapt.env", ROOT / "cluster.yaml", KUBERAY, SLURM)


def documents() -> list[dict[str, Any]]:
    """Return what the manifests of KubeRay say."""
    return list(yaml.safe_load_all(KUBERAY.read_text()))


def ray_cluster() -> dict[str, Any]:
    """Return the Ray cluster of the manifests."""
    return next(one for one in documents() if one["kind"] == "RayCluster")


def wrong_core_kinds() -> list[str]:
    """Return what Kubernetes would refuse of its own kinds, a line each."""
    version, found = kubernetes_validate.latest_version(), []
    for one in documents():
        if one["apiVersion"].startswith("ray.io/"):
            continue
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{one['kind']} {one['metadata']['name']}: {error}")
    return found


def wrong_ray_cluster(definitions: Path, cluster: dict[str, Any] | None = None) -> list[str]:
    """Return what KubeRay's definition would refuse of a Ray cluster, a line each; by default of ours."""
    cluster = ray_cluster() if cluster is None else cluster
    text = gzip.decompress((definitions / "ray.io_rayclusters.crd.yaml.gz").read_bytes())
    version = cluster["apiVersion"].rpartition("/")[2]
    schema = next(
        one["schema"]["openAPIV3Schema"]
        for one in yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]["versions"]
        if one["name"] == version
    )
    schema["properties"]["metadata"] = {"type": "object"}
    checker = jsonschema.Draft202012Validator(_closed(schema))
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in checker.iter_errors(cluster)]


def _closed(schema: Any) -> Any:
    """Return a schema that takes no field which it does not name, as Kubernetes prunes those."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _closed(value) for key, value in schema.items()}
    open_to_all = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not open_to_all:
        found["additionalProperties"] = False
    return found


def container(group: str = "head") -> dict[str, Any]:
    """Return the container of the head, or of a group of workers by its name."""
    spec = ray_cluster()["spec"]
    groups = {one["groupName"]: one for one in spec["workerGroupSpecs"]} | {"head": spec["headGroupSpec"]}
    found: dict[str, Any] = groups[group]["template"]["spec"]["containers"][0]
    return found


def options_of_up(path: Path) -> list[list[str]]:
    """Return the options of each `coadapt up` in a file, without its comments."""
    lines = re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    calls = re.findall(r"coadapt up (--address [^\n;]*)", lines)
    calls += re.findall(r'^COADAPT_UP_OPTIONS="(.*)"$', lines, re.MULTILINE)
    return [shlex.split(call.replace("$COADAPT_UP_OPTIONS", "")) for call in calls]
