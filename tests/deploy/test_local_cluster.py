"""`coadapt up --emulate …`: what a user types is understood, or answered with one clear sentence."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.client.client import NoClusterError, connect
from coadapt.client.cluster_record import ClusterRecord, LocalClusterError, NodeProcess, Process
from coadapt.core.emulated_nodes import EmulatedNode, EmulationError, known_gpu_types, parse
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster

KNOWN = ("a100", "rtx", "t4")


def test_nodes_are_read_in_order() -> None:
    assert parse("1x a100:4, 2x t4:2", KNOWN) == (
        EmulatedNode("a100", 4),
        EmulatedNode("t4", 2),
        EmulatedNode("t4", 2),
    )


def test_a_single_node_needs_no_count_and_case_does_not_matter() -> None:
    assert parse("2x v100:8/24/500@lab", ("v100",)) == (EmulatedNode("v100", 8, "lab", 24.0, 500.0),) * 2
    assert parse("A100:8,", KNOWN) == (EmulatedNode("a100", 8),)
    assert parse("2x t4:2@lab, a100:1", KNOWN) == (*[EmulatedNode("t4", 2, "lab")] * 2, EmulatedNode("a100", 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no nodes"),
        (" , ", "no nodes"),
        ("a100", "'a100' is not of the form '2x t4:4'"),
        ("2 a100:4", "not of the form"),
        ("1x h200:4", "GPU type 'h200' is unknown; known: a100, rtx, t4"),
        ("0x a100:4", "asks for 0 nodes; accepted: 1 to 32"),
        ("-1x a100:4", "asks for -1 nodes"),
        ("99x a100:4", "asks for 99 nodes"),
        ("1x a100:0", "asks for 0 GPUs per node; accepted: 1 to 64"),
        ("1x a100:65", "asks for 65 GPUs per node"),
        ("20x a100:1, 20x t4:1", "40 nodes in all"),
        ("1x a100:4/24", "'1x a100:4/24' is not of the form .*'2x t4:4/16/128' \\(GPUs/CPUs/GiB\\)"),
        ("1x a100:4/0/500", "asks for 0 CPUs and 500 GiB per node; accepted: more than 0"),
        ("1x a100:4/24/0", "asks for 24 CPUs and 0 GiB per node"),
    ],
)
def test_what_cannot_be_emulated_is_explained(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        parse(text, KNOWN)


def test_every_measured_gpu_type_can_be_emulated() -> None:
    assert {"a100", "t4", "rtx"} <= set(known_gpu_types())


def test_the_record_of_a_cluster_is_read_back(tmp_path: Path) -> None:
    me = Process(os.getpid(), local_cluster.psutil.Process().create_time())
    record = ClusterRecord("1.2.3.4:5", started=True, head=(me,), nodes=(NodeProcess("t4", 2, (me,)),))
    record.save(tmp_path)
    found = ClusterRecord.load(tmp_path)
    assert found == record
    assert found is not None
    assert found.alive


def test_a_process_with_the_same_number_started_later_is_another_one() -> None:
    assert Process(os.getpid(), 12345.0).alive() is None


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(LocalClusterError, match="not a cluster record"):
        ClusterRecord.load(tmp_path)


def test_without_a_cluster_the_client_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COADAPT_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoClusterError, match="coadapt up"):
        connect(state_dir=tmp_path)
    ClusterRecord("1.2.3.4:5", started=True, head=(Process(2**22 + 1, 0.0),)).save(tmp_path)
    with pytest.raises(NoClusterError, match="has ended; repeat that `coadapt up`, and jobs go on"):
        connect(state_dir=tmp_path)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "127.0.0.1:99999"])
def test_a_dead_address_is_told_at_once(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # whatever cluster other tests are connected to
    with pytest.raises(NoClusterError, match=f"no Ray cluster answers at {address}"):
        local_cluster.up(address=address, settings=Settings(state_dir=str(tmp_path)))
    assert ClusterRecord.load(tmp_path) is None


def test_an_address_where_nobody_answers_or_that_is_no_url_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coadapt.client.http_api.FIRST_S", 0.0)
    with pytest.raises(NoClusterError, match=r"no scheduler answers at http://127\.0\.0\.1:9: "):
        connect("http://127.0.0.1:9/", state_dir=tmp_path).me()
    with pytest.raises(
        NoClusterError, match=r"10\.0\.0\.1:6379 is not the URL of a scheduler, such as http://127"
    ):
        connect("10.0.0.1:6379", state_dir=tmp_path)


def test_what_trains_beside_a_busy_program_has_the_priority_of_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ClusterRecord("1.2.3.4:5", temp_dir=str(tmp_path), mark="m")
    monkeypatch.delenv("RAY_worker_niceness", raising=False)
    assert local_cluster._ray_start(record, tmp_path / "n0", []).env["RAY_worker_niceness"] == "0"
    monkeypatch.setenv("RAY_worker_niceness", "10")
    assert local_cluster._ray_start(record, tmp_path / "n0", []).env["RAY_worker_niceness"] == "10"


def test_down_without_a_cluster_does_nothing(tmp_path: Path) -> None:
    assert local_cluster.down(tmp_path) is False


def test_up_needs_exactly_one_of_its_two_ways(tmp_path: Path) -> None:
    for arguments in ({}, {"emulate": "t4:1", "address": "auto"}):
        with pytest.raises(LocalClusterError, match="either emulate or address"):
            local_cluster.up(**arguments, settings=Settings(state_dir=str(tmp_path)))


def test_the_cluster_found_by_auto_is_recorded_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_cluster, "address_of", lambda record: "10.0.0.1:6379")
    monkeypatch.setattr(
        local_cluster, "start_service", lambda record, settings, tell, rounds: replace(record, url="http://h:1")
    )
    local_cluster.up(address="auto", settings=Settings(state_dir=str(tmp_path)))
    found = ClusterRecord.load(tmp_path)
    assert found is not None
    assert found.address == "10.0.0.1:6379"


def test_a_second_cluster_in_one_state_directory_is_refused(tmp_path: Path) -> None:
    me = Process(os.getpid(), local_cluster.psutil.Process().create_time())
    ClusterRecord("1.2.3.4:5", started=True, head=(me,)).save(tmp_path)
    with pytest.raises(LocalClusterError, match="runs already"):
        local_cluster.up("t4:1", settings=Settings(state_dir=str(tmp_path)))


def test_settings_refuse_what_they_do_not_know(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="round_intervall"):
        Settings.model_validate({"state_dir": str(tmp_path), "round_intervall": 5})
    with pytest.raises(ValueError, match="state_dir is empty"):
        Settings(state_dir=" ")
    assert json.loads(Settings(state_dir=str(tmp_path)).model_dump_json())["round_interval_s"] == 60.0


def test_without_rays_command_beside_python_up_says_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    assert main.run(["up", "--emulate", "1x t4:1"]) == Exit.NO_CLUSTER
    assert capsys.readouterr().err == (
        f"coadapt: there is no `ray` command in {tmp_path}/bin, beside the Python that runs coadapt; "
        f"install Ray there: {tmp_path}/bin/python -m pip install 'ray[default]'\n"
    )
    assert not (tmp_path / "home").exists()


def test_why_ray_did_not_start_is_no_line_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "start.log"
    log.write_text("ValueError: no\n[2026-11-28 01:44:52,407 W 1 1] network_util.cc:330: Failed to\n")
    assert local_cluster._last_line(log) == "ValueError: no"
