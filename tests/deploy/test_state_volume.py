"""The volume that outlives a head is mounted on the next one, and nothing that is on it is ever written over."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "cloud" / "state_volume.sh"
VOLUME = "vol-0123456789abcdef0"
DEVICE = "nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"


class Machine:
    """A machine whose commands note what they are told. `blkid` answers a line and a status."""

    def __init__(self, folder: Path, *, attached: bool, mounted: bool, blkid: tuple[str, int]) -> None:
        self.folder, self.log = folder, folder / "log"
        self.log.touch()
        (folder / "devices").mkdir()
        device = folder / "devices" / DEVICE
        if attached:
            device.touch()
        answers = {
            "mountpoint": f"exit {0 if mounted else 1}",
            "blkid": f'printf "%s" "{blkid[0]}"; exit {blkid[1]}',
            "aws": f'case "$*" in *attach-volume*) touch {device};; esac',
            "curl": "echo told",
            "sudo": 'exec "$@"',
        }
        for name in ("aws", "blkid", "chown", "curl", "mkdir", "mkfs.ext4", "mount", "mountpoint", "sudo"):
            path = folder / name
            note = "" if name in ("sudo", "curl") else f'echo "{name} $*" >> {self.log}\n'
            path.write_text(f"#!/bin/sh\n{note}{answers.get(name, '')}\n")
            path.chmod(0o755)

    def run(self) -> tuple[int, list[str]]:
        """Run the script; return its status and the names of what it had done."""
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}", "COADAPT_DEVICES": str(self.folder / "devices")}
        done = subprocess.run(["bash", str(SCRIPT), VOLUME, "/state"], env=env, capture_output=True, check=False)
        calls = [line.split() for line in self.log.read_text().splitlines()]
        return done.returncode, [" ".join(call[:3] if call[0] == "aws" else call[:1]) for call in calls]


USED, BLANK, BROKEN = ("TYPE=ext4", 0), ("", 2), ("", 4)
MOUNTS = ["blkid", "mkdir", "mount", "chown"]
FREE = ["aws ec2 wait", "aws ec2 attach-volume"]


@pytest.mark.parametrize(
    ("attached", "mounted", "blkid", "status", "done"),
    [
        (True, True, USED, 0, ["mountpoint"]),
        (True, False, USED, 0, ["mountpoint", *MOUNTS]),
        (False, False, USED, 0, ["mountpoint", *FREE, *MOUNTS]),
        (False, False, BLANK, 0, ["mountpoint", *FREE, "blkid", "mkfs.ext4", *MOUNTS[1:]]),
        (True, False, BROKEN, 1, ["mountpoint", "blkid"]),
    ],
    ids=["mounted", "attached", "of the head before", "new", "cannot be read"],
)
def test_a_volume_is_formatted_only_if_nothing_is_on_it(
    tmp_path: Path, attached: bool, mounted: bool, blkid: tuple[str, int], status: int, done: list[str]
) -> None:
    machine = Machine(tmp_path, attached=attached, mounted=mounted, blkid=blkid)
    assert machine.run() == (status, done)
