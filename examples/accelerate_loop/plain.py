"""Train a classifier of spirals with Accelerate: accumulation, clipping, a schedule and a validation."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def spirals(count: int, seed: int) -> TensorDataset:
    """Return points of three spirals with a little noise, and the number of each point's spiral."""
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 3, (count,), generator=g)
    radius = torch.rand(count, generator=g)
    angle = 5 * radius + 2.1 * label
    points = radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    return TensorDataset(points + 0.02 * torch.randn(count, 2, generator=g), label)


torch.manual_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
order = torch.Generator().manual_seed(3)
loader = DataLoader(spirals(600, seed=1), batch_size=24, shuffle=True, generator=order)
test_loader = DataLoader(spirals(300, seed=2), batch_size=100)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12 * 13)
model, optimizer, loader, test_loader, scheduler = accelerator.prepare(
    model, optimizer, loader, test_loader, scheduler
)
for epoch in range(12):
    model.train()
    for points, label in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(points), label)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    right = 0
    with torch.no_grad():
        for points, label in test_loader:
            right += accelerator.gather_for_metrics(model(points).argmax(1) == label).sum().item()
    accelerator.log({"accuracy": right / 300}, step=epoch)
    accelerator.print(f"epoch {epoch}: accuracy {right / 300:.3f}")
accelerator.wait_for_everyone()
if accelerator.is_main_process:
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
