"""Train a small regression with Ray Train's TorchTrainer."""

import tempfile

import ray.train
import ray.train.torch
import torch
import torch.nn.functional as F
from ray.train import Checkpoint, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def points(count: int, seed: int) -> TensorDataset:
    """Return points of the plane, and the height of a saddle above them."""
    g = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(count, 2, generator=g) - 1
    return TensorDataset(x, (x[:, :1] ** 2 - x[:, 1:] ** 2) + 0.02 * torch.randn(count, 1, generator=g))


def train_loop(config):
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    loader = ray.train.torch.prepare_data_loader(DataLoader(points(400, seed=1), batch_size=16))
    test, target = points(200, seed=2).tensors
    for _ in range(config["epochs"]):
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            error = F.mse_loss(model(test), target).item()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), f"{folder}/model.pt")
            ray.train.report({"error": error}, checkpoint=Checkpoint.from_directory(folder))


trainer = TorchTrainer(
    train_loop,
    train_loop_config={"lr": 1e-2, "epochs": 6},
    scaling_config=ScalingConfig(num_workers=0),
)
print(trainer.fit().metrics)
