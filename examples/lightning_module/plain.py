"""Train a denoising autoencoder with Lightning: accumulation, clipping, a validation and early stopping."""

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def waves(count: int, seed: int) -> TensorDataset:
    """Return sine waves of 32 points with noise, and without."""
    g = torch.Generator().manual_seed(seed)
    phase, speed = 6.3 * torch.rand(count, 1, generator=g), 1 + 2 * torch.rand(count, 1, generator=g)
    clean = torch.sin(phase + speed * torch.linspace(0, 3.1, 32))
    return TensorDataset(clean + 0.3 * torch.randn(count, 32, generator=g), clean)


class Denoiser(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 8), nn.Tanh(), nn.Linear(8, 32))

    def training_step(self, batch, batch_idx):
        noisy, clean = batch
        loss = F.mse_loss(self.net(noisy), clean)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        noisy, clean = batch
        self.log("val_loss", F.mse_loss(self.net(noisy), clean))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)]


seed_everything(0)
trainer = Trainer(
    max_epochs=12,
    accumulate_grad_batches=2,
    gradient_clip_val=1.0,
    callbacks=[EarlyStopping("val_loss", patience=3)],
    default_root_dir="out",
    logger=False,
    enable_progress_bar=False,
)
trainer.fit(
    Denoiser(),
    DataLoader(waves(480, seed=1), batch_size=24),
    DataLoader(waves(200, seed=2), batch_size=100),
)
trainer.save_checkpoint("out/final.ckpt")
