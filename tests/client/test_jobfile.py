"""A job file says what its user meant: values are read as written, paths are found, the schema is published."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from coadapt.client import jobfile
from coadapt.core.cluster import Cluster, Node

from tests.support.rounds import cluster

ROOT = Path(__file__).resolve().parents[2]
MINIMAL = "name: demo\nscript: train.py\n"


def test_two_fields_are_enough() -> None:
    spec = jobfile.parse(MINIMAL)
    assert (spec.name, spec.script, spec.resources.min_gpus) == ("demo", "train.py", 1)


def test_text_stays_as_it_is_written() -> None:
    spec = jobfile.parse(MINIMAL.replace("demo", "010") + "args: [--lr, 0.10, --warm, no]\nenv: {VERSION: 1.10}\n")
    assert spec.name == "010"
    assert spec.args == ["--lr", "0.10", "--warm", "no"]
    assert spec.env == {"VERSION": "1.10"}


def test_numbers_are_those_of_yaml_1_2() -> None:
    spec = jobfile.parse(MINIMAL + "resources: {max_gpus: 010}\ntraining: {report_interval_s: 1e1}\n")
    assert spec.resources.max_gpus == 10
    assert spec.training.report_interval_s == 10.0


def test_modest_aliases_work() -> None:
    spec = jobfile.parse(MINIMAL + "env: {A: &x hello, B: *x}\n")
    assert spec.env == {"A": "hello", "B": "hello"}


def test_working_dir_is_relative_to_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(MINIMAL + "working_dir: code\n")
    assert jobfile.load(tmp_path / "job.yaml").working_dir == str(tmp_path / "code")


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(jobfile.JobFileError) as error:
        jobfile.parse("name: a b\nscrpt: x\nresources: {min_gpus: 0}\n")
    assert len(error.value.problems) == 4


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(jobfile.JobFileError, match=r"^[^\n]*: cannot be read: there is no such file$"):
        jobfile.load(tmp_path / "job.yaml")


def test_a_cluster_whose_nodes_have_not_come_yet_accepts_any_type() -> None:
    spec = jobfile.parse(MINIMAL + "resources: {gpu_types: [h100]}\n")
    assert jobfile.misfits(spec, Cluster(())) == []
    assert len(jobfile.misfits(spec, Cluster((Node("n", "t4", 1),)))) == 1


def test_a_job_whose_replicas_have_no_size_on_the_cluster_is_told_so() -> None:
    spec = jobfile.parse(MINIMAL + "resources: {gpus_per_replica: {h100: 2}}\n")
    said = "resources.gpus_per_replica: names no GPU type of this cluster, which has a100, t4"
    assert jobfile.misfits(spec, Cluster((Node("1", "t4", 1), Node("2", "a100", 4)))) == [said]


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("a", None),
        ("b", "resources.min_gpus: 4 is more than pool b has of any one type (t4 2)"),
        ("aa", "pool: aa is not a pool of this cluster; did you mean a?"),
        (None, "pool: every node of this cluster belongs to a pool; name one of a, b"),
    ],
)
def test_a_job_fits_the_nodes_of_its_pool(pool: str | None, said: str | None) -> None:
    nodes = Cluster((Node("1", "t4", 4, pool="a"), Node("2", "t4", 2, pool="b")))
    spec = jobfile.parse(MINIMAL + "resources: {min_gpus: 4}\n").model_copy(update={"pool": pool})
    assert jobfile.misfits(spec, nodes) == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ("{cpus_per_gpu: 8}", None),
        ("{memory_gib_per_gpu: 64}", None),
        (
            "{cpus_per_gpu: 17}",
            "resources.cpus_per_gpu: 17 is more than any node has for each GPU of a replica; "
            "most that are accepted: a100 16, t4 4",
        ),
        (
            "{cpus_per_gpu: 10, gpus_per_replica: 2, max_gpus: 4}",
            "resources.cpus_per_gpu: 10 is more than any node has for each GPU of a replica; "
            "most that are accepted: a100 8, t4 2",
        ),
        (
            "{memory_gib_per_gpu: 65}",
            "resources.memory_gib_per_gpu: 65 is more than any node has for each GPU of a replica; "
            "most that are accepted: a100 64, t4 32",
        ),
        (
            "{cpus_per_gpu: 8, memory_gib_per_gpu: 65}",
            "resources.memory_gib_per_gpu: 65 is more than any node has for each GPU of a replica; "
            "most that are accepted: a100 64",
        ),
    ],
)
def test_cpus_and_memory_beside_the_gpus_of_a_replica_must_be_on_some_node(
    resources: str, said: str | None
) -> None:
    nodes = Cluster((Node("1", "a100", 4, cpus=16.0, memory_gib=64.0), Node("2", "t4", 2, 4.0, 32.0)))
    spec = jobfile.parse(MINIMAL + f"resources: {resources}\n")
    assert jobfile.misfits(spec, nodes) == ([] if said is None else [said])
    assert jobfile.misfits(spec, Cluster((Node("1", "a100", 4),))) == [], "a node that states none has enough"


def test_an_emulated_input_needs_nodes_with_cpus_and_memory() -> None:
    job = "emulation: {input: {cpus: [1, 2], prepared: [10, 20]}}\n"
    spec, node = jobfile.parse(MINIMAL + job), Node("1", "t4", 4, 4.0, 64.0, emulated=True)
    assert jobfile.misfits(spec, Cluster((node,))) == []
    assert jobfile.misfits(spec, Cluster((Node("1", "t4", 4, 1.0),))) == [], "no node is emulated"
    for less in (Node("1", "t4", 4, 1.0, 64.0, emulated=True), Node("1", "t4", 4, 4.0, emulated=True)):
        assert jobfile.misfits(spec, Cluster((less,))) == [
            "emulation.input: no emulated node has a CPU and memory for each of its GPUs; "
            "start nodes with both, as by --emulate '2x t4:4/16/128'"
        ]


def test_the_default_of_cpus_is_a_wish_that_every_node_meets() -> None:
    spec = jobfile.parse(MINIMAL)
    assert jobfile.misfits(spec, Cluster((Node("1", "t4", 4, cpus=0.5),))) == []


def test_a_pool_where_there_are_none_is_refused() -> None:
    spec = jobfile.parse(MINIMAL + "pool: a\n")
    said = "pool: a is not a pool of this cluster, which has none; leave it out"
    assert jobfile.misfits(spec, Cluster((Node("n", "t4", 1),))) == [said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "pool: lab\nresources: {gpu_types: [a100]}\n",
            "resources.gpu_types: a100 is not a GPU type of pool lab; known: t4",
        ),
        (
            "resources: {gpu_types: [t4]}\n",
            "resources.gpu_types: t4 is not a GPU type of the cluster outside its pools; known: a100",
        ),
        (
            "resources: {min_gpus: 8}\n",
            "resources.min_gpus: 8 is more than the cluster outside its pools has of any one type (a100 4)",
        ),
        (
            "pool: lab\nresources: {min_gpus: 4}\n",
            "resources.min_gpus: 4 is more than pool lab has of any one type (t4 2)",
        ),
    ],
)
def test_what_a_pool_lacks_is_said_of_the_pool(text: str, said: str) -> None:
    nodes = Cluster((Node("1", "a100", 4), Node("2", "t4", 2, pool="lab")))
    assert jobfile.misfits(jobfile.parse(MINIMAL + text), nodes) == [said]


def test_the_published_schema_is_the_one_the_code_holds() -> None:
    assert jobfile.SCHEMA_PATH.read_text() == jobfile.schema_text(), "run `coadapt schema --write`"


def test_the_schema_accepts_what_the_parser_accepts() -> None:
    schema = json.loads(jobfile.SCHEMA_PATH.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for text in (MINIMAL, MINIMAL + "training: {max_local_batch_size: {a100: 8}, lr_scaling: my.rules:half}\n"):
        validator.validate(yaml.safe_load(text))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(yaml.safe_load(MINIMAL + "resources: {min_gpu: 1}\n"))


def test_every_field_of_the_schema_is_described() -> None:
    def undescribed(schema: dict, where: str) -> list[str]:
        return [
            f"{where}.{name}"
            for name, field in schema.get("properties", {}).items()
            if "description" not in field and "$ref" not in field
        ]

    schema = jobfile.schema()
    assert undescribed(schema, "job") == []
    assert [u for name, part in schema["$defs"].items() for u in undescribed(part, name)] == []


def test_the_guide_has_every_field() -> None:
    guide = (ROOT / "docs" / "guide" / "job-file.md").read_text()
    schema = jobfile.schema()
    parts = {"": schema["properties"]} | {
        prefix: schema["$defs"][name]["properties"]
        for prefix, name in {
            "resources.": "ResourceRequest",
            "training.": "TrainingConfig",
            "training.target.": "MetricTarget",
            "training.checkpoint.": "CheckpointConfig",
            "reservation.": "Reservation",
            "emulation.": "Emulation",
        }.items()
    }
    missing = [p + name for p, fields in parts.items() for name in fields if f"| `{p}{name}` |" not in guide]
    assert missing == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/job.yaml")), ids=lambda path: path.parent.name)
def test_the_examples_are_valid_jobs(path: Path) -> None:
    jobfile.load(path)
    jsonschema.Draft202012Validator(jobfile.schema()).validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    ("sizes", "least"),
    [
        ("[8, 16]", "8"),
        ("{t4: [8], a100: [4]}", "a100 4, t4 8"),
        ("[4, 16]", None),
        ("{t4: [4], a100: [4]}", None),
    ],
)
def test_sizes_of_which_none_fits_are_told_with_what_there_is(sizes: str, least: str | None) -> None:
    spec = jobfile.parse(f"name: a\ncommand: [x]\nsizes: {sizes}\n")
    told = f"sizes: {least} is more than the cluster has of any one type (a100 2, t4 4)"
    assert jobfile.misfits(spec, cluster("1x a100:2, 2x t4:2")) == ([] if least is None else [told])
