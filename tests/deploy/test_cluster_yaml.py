"""Both clusters of cluster.yaml are what `ray up` accepts, and their nodes say which GPUs they have."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from coadapt.scheduler.nodes.node_view import GPU_TYPE_LABEL
from ray._private.label_utils import parse_node_labels_from_yaml_file, validate_label_key, validate_label_value
from ray.autoscaler._private.util import prepare_config, validate_config

TEXT = (Path(__file__).resolve().parents[2] / "cluster.yaml").read_text()


def cloud() -> dict[str, Any]:
    return yaml.safe_load(TEXT)


def on_premises() -> dict[str, Any]:
    """Return the commented cluster as its user would save it."""
    lines = TEXT[TEXT.index("# cluster_name:") :].splitlines()
    return yaml.safe_load("\n".join(line.removeprefix("# ") for line in lines))


@pytest.mark.parametrize("config", [cloud(), on_premises()], ids=["cloud", "on-premises"])
def test_ray_accepts_it(config: dict[str, Any]) -> None:
    validate_config(prepare_config(dict(config)))


@pytest.mark.parametrize("config", [cloud(), on_premises()], ids=["cloud", "on-premises"])
def test_it_ships_the_checkout_and_starts_the_scheduler_on_the_head_only(config: dict[str, Any]) -> None:
    assert config["file_mounts"]["~/coadapt"] == "."
    assert any("-e ~/coadapt" in command for command in config["setup_commands"])
    assert "coadapt up --address auto" in config["head_start_ray_commands"][-1]
    assert not any("coadapt up" in command for command in config["worker_start_ray_commands"])
    starts = [c for part in ("head", "worker") for c in config[f"{part}_start_ray_commands"] if "ray start" in c]
    assert all(command.startswith("RAY_AUTH_MODE=token ") for command in starts)


def test_every_gpu_node_of_the_cloud_says_its_type() -> None:
    types = {name: node for name, node in cloud()["available_node_types"].items() if node["resources"]["GPU"]}
    assert len(types) >= 3
    for name, node in types.items():
        assert node["labels"][GPU_TYPE_LABEL] == name
        assert node["max_workers"] >= node["min_workers"] >= 1
        for key, value in node["labels"].items():
            validate_label_key(key)
            validate_label_value(value)


def test_the_labels_file_of_the_comment_is_one_ray_reads(tmp_path: Path) -> None:
    line = next(line for line in TEXT.splitlines() if "in one line such as:" in line)
    path = tmp_path / "labels.yaml"
    path.write_text(line.split("such as:")[1])
    assert parse_node_labels_from_yaml_file(str(path)) == {GPU_TYPE_LABEL: "rtx"}
