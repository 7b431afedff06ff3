"""A job's process sees of its node what it needs to train, and nothing of the cluster or of other people."""

from __future__ import annotations

import pytest
from coadapt.executor.sandbox.environment import around, built

NODE = {
    "PATH": "/usr/bin",
    "LD_LIBRARY_PATH": "/opt/cuda/lib",
    "NCCL_SOCKET_IFNAME": "eth0",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "OMP_NUM_THREADS": "4",
    "LC_ALL": "C.UTF-8",
    "http_proxy": "http://proxy:3128",
    "HTTPS_PROXY": "http://someone:password@proxy:3128",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123",
    "RAY_AUTH_TOKEN_PATH": "/home/a/.coadapt/token",
    "RAY_JOB_ID": "01000000",
    "COADAPT_HOME": "/home/a/.coadapt",
    "AWS_SECRET_ACCESS_KEY": "key",
    "WANDB_API_KEY": "key",
    "HOME": "/home/a",
    "SSH_AUTH_SOCK": "/run/agent",
    "LD_PRELOAD": "/evil.so",
}


def test_only_what_training_needs_is_let_through() -> None:
    assert set(around(NODE)) == {
        *("PATH", "LD_LIBRARY_PATH", "NCCL_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"),
        *("LC_ALL", "http_proxy"),
    }


@pytest.mark.parametrize("name", [name for name in NODE if name.startswith("RAY_")])
def test_nothing_of_ray_is(name: str) -> None:
    assert name not in built(NODE, {"A": "1"}, "/job")


def test_its_home_is_its_own_folder_and_what_the_job_says_counts() -> None:
    told = built(NODE, {"OMP_NUM_THREADS": "1", "A": "b"}, "/job/home")
    assert (told["HOME"], told["OMP_NUM_THREADS"], told["A"]) == ("/job/home", "1", "b")
    assert built(NODE, {"HOME": "/mine"}, "/job")["HOME"] == "/mine"


def test_an_operator_may_let_more_through() -> None:
    told = built(NODE, {}, "/job", passed=("AWS_*", "WANDB_API_KEY"))
    assert {"AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY"} <= set(told)
    assert "SSH_AUTH_SOCK" not in told


def test_a_user_without_an_account_has_a_name_all_the_same() -> None:
    told = built({"USER": "root"}, {}, "/job", user="coadapt-7")
    assert (told["USER"], told["LOGNAME"]) == ("coadapt-7", "coadapt-7")
