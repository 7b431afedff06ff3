"""Fit a module with Lightning's Trainer; it saves after each epoch, and goes on from the last one saved."""

import argparse
import os
import time

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = 16
WORLD = int(os.environ.get("WORLD_SIZE", 1))


class Points(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        time.sleep(0.01)
        x = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return x, x.sum(0, keepdim=True)


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.losses = []

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.layer(x), y)
        self.last = self.all_gather(loss.detach()).mean().item()
        if self.global_rank == 0:
            print(f"step {self.global_step + 1} loss {self.last:.5f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02)


parser = argparse.ArgumentParser()
parser.add_argument("--folder", default="lightning")
args = parser.parse_args()
L.seed_everything(0)
trainer = L.Trainer(
    accelerator="cpu",
    devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
    num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)),
    strategy="ddp",
    max_epochs=8,
    callbacks=[ModelCheckpoint(args.folder, save_last=True, every_n_epochs=1)],
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Model()
last = os.path.join(args.folder, "last.ckpt")
trainer.fit(
    model, DataLoader(Points(), batch_size=BATCH // WORLD), ckpt_path=last if os.path.exists(last) else None
)
if trainer.is_global_zero and trainer.current_epoch == 8:
    print(f"final loss {model.last:.6f}", flush=True)
