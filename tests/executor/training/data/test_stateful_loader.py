"""torchdata's StatefulDataLoader as the training loader: every sample once an epoch, whatever happens."""

from collections import Counter
from pathlib import Path

import pytest
from coadapt.core.training_config import CheckpointConfig, TrainingConfig

from tests.support.warm_group import WarmGroup

pytest.importorskip("torchdata.stateful_dataloader")

SAMPLES, EPOCHS = 101, 3
SCRIPT = """
import os, sys, time
import coadapt, torch
from torch import nn
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader
class Numbers(IterableDataset):
    def __iter__(self):
        return iter(range(SAMPLES))
torch.manual_seed(0)
model = nn.Linear(1, 1)
loader = StatefulDataLoader(DATA)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
seen = open(f"{sys.argv[1]}/seen-{os.getpid()}.txt", "a", buffering=1)
for epoch in coadapt.epochs(EPOCHS):
    for number in loader:
        seen.write("".join(f"{int(epoch)} {int(n)}\\n" for n in number))
        optimizer.zero_grad()
        model(number.float().view(-1, 1)).mean().backward()
        optimizer.step()
        time.sleep(0.01)
"""
MAP = "list(range(SAMPLES)), batch_size=8, shuffle=True"


@pytest.mark.parametrize("loader", [MAP, f"{MAP}, num_workers=2", "Numbers(), batch_size=8"])
def test_each_sample_is_seen_once_over_growth_and_a_restart(tmp_path: Path, loader: str) -> None:
    text = SCRIPT.replace("DATA", loader).replace("SAMPLES", str(SAMPLES)).replace("EPOCHS", str(EPOCHS))
    (path := tmp_path / "train.py").write_text(text)
    training = TrainingConfig(report_interval_s=0.05, checkpoint=CheckpointConfig(at_epoch_end=False))
    with WarmGroup(path, tmp_path, training, args=[str(tmp_path)]) as job:
        a, b, c = job.start(3)
        job.join([a])
        a.reached(4)
        job.join([a, b])
        a.reached(16)
        job.stop()
        job.join([c])  # from the checkpoint, in the midst of the second epoch
        job.finish()
    counts: Counter[str] = Counter()
    for file in tmp_path.glob("seen-*.txt"):
        counts.update(file.read_text().splitlines())
    assert len(counts) == SAMPLES * EPOCHS
    assert set(counts.values()) == {1}
