"""CPUs and memory change while a job trains: nothing restarts, and no sample is lost or seen twice."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from coadapt.core.training_config import CheckpointConfig, TrainingConfig
from coadapt.executor.protocol import messages
from coadapt.executor.protocol.messages import Finished, Joined, Provide, Report
from coadapt.executor.training.caching import folders

from tests.support.warm_group import WarmGroup

QUICK = TrainingConfig(report_interval_s=0.05, checkpoint=CheckpointConfig(at_epoch_end=False))
SAMPLES, EPOCHS = 240, 3
SCRIPT = f"""
import os, random, sys, time
from pathlib import Path
import coadapt, torch
from torch.utils.data import DataLoader, Dataset

out = Path(sys.argv[1])

def load(index):
    with (out / f"reads-{{os.getpid()}}.txt").open("a") as file:
        file.write(f"{{index}}\\n")
    return torch.full((4,), float(index)).numpy()

class Samples(Dataset):
    def __init__(self):
        self.load = coadapt.cached(load)

    def __len__(self):
        return {SAMPLES}

    def __getitem__(self, index):
        time.sleep(float(os.environ["SLOW_S"]))
        return index, torch.from_numpy(self.load(index)) + random.random(), len(os.sched_getaffinity(0))

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
loader = DataLoader(Samples(), batch_size=4, shuffle=True, num_workers=1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
log = (out / f"seen-{{os.getpid()}}.txt").open("a")
for epoch in coadapt.epochs({EPOCHS}):
    for indices, inputs, cores in loader:
        optimizer.zero_grad()
        model(inputs.float()).pow(2).mean().backward()
        optimizer.step()
        for index, value, core in zip(indices.tolist(), inputs[:, 0].tolist(), cores.tolist()):
            print(epoch, index, value, core, file=log, flush=True)
torch.save(model.state_dict(), out / f"model-{{coadapt.rank()}}.pt")
"""


def trained(
    folder: Path, changes: list[Provide], ranks: int = 2, reports: list[Report] | None = None, slow_s: float = 0.0
) -> list[list[str]]:
    """Train with some changes on the way; return what was seen, as (epoch, index, value, cores).

    Args:
        reports: takes those of the first process.
        slow_s: what a loader worker takes for a sample.
    """
    folder.mkdir()
    script = folder / "script.py"
    script.write_text(SCRIPT)
    env = {
        messages.JOB_ID: folder.name,
        messages.NODE_ID: "n",
        messages.CACHE_BYTES: "4000",
        "SLOW_S": str(slow_s),
    }
    with WarmGroup(script, folder, QUICK, args=[str(folder)], env=env) as job:
        members = job.start(ranks)
        job.join(members)
        for number, change in enumerate(changes):
            members[0].reached(8 * (number + 1))
            for member in members:
                member.send(change)
        for member in members:
            member.wait(Finished)
            assert len(member.all(Joined)) == 1, "it never joined another group"
        if reports is not None:
            reports += members[0].all(Report)
    return [line.split() for file in sorted(folder.glob("seen-*.txt")) for line in file.read_text().splitlines()]


@pytest.fixture(autouse=True)
def _no_left_overs() -> None:
    for home in folders.homes():
        folders.remove_unused(home)


def test_changes_while_training_change_no_sample_and_no_draw(tmp_path: Path) -> None:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    changes = [
        Provide(cores[:1], 3, 20_000),
        Provide((), 2, 0),
        Provide(cores[:1], 1, 8_000),
        Provide((), 3, 40_000),
    ]
    changed, plain = trained(tmp_path / "changed", changes), trained(tmp_path / "plain", [])
    counts = Counter((epoch, index) for epoch, index, _, _ in changed)
    assert len(counts) == SAMPLES * EPOCHS
    assert set(counts.values()) == {1}
    assert sorted(one[:3] for one in changed) == sorted(one[:3] for one in plain)
    assert {one[3] for one in changed} == {str(len(cores)), "1"}, "its loader workers had other cores, too"
    assert {one[3] for one in plain} == {str(len(cores))}
    assert not list(folders.home().glob("changed*")) or folders.remove_unused(folders.home())


def test_a_larger_cache_has_more_hits_in_the_next_epoch(tmp_path: Path) -> None:
    changed = tmp_path / "filled"
    trained(changed, [Provide((), 1, 1 << 20)], ranks=1)
    reads = [int(line) for file in changed.glob("reads-*.txt") for line in file.read_text().splitlines()]
    assert len(reads) < 1.5 * SAMPLES, "the first epoch filled it, but for what was read before the change"


def test_reports_tell_how_long_loader_workers_were_waited_for_and_how_many_there_were(tmp_path: Path) -> None:
    reports: list[Report] = []
    trained(tmp_path / "waits", [Provide((), 2, None)], ranks=1, reports=reports, slow_s=0.01)
    rows = [row for report in reports for row in report.rows]
    steps = sum(row.count for row in rows)
    waited_s = sum(row.wait_s * row.count for row in rows) / steps
    whole_s = sum(row.step_time_s * row.count for row in rows) / steps
    assert 0.5 * whole_s < waited_s < whole_s, "4 samples of 10 ms take far longer than a step of this model"
    told = [report.loader_workers for report in reports if report.rows]
    assert {1, 2} <= set(told)
    assert told[0] == 1
    assert told[-1] == 2
