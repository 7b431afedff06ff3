# kind: 8 LoRA: a frozen base, its adapters merged for validation and taken out again
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LoRALinear(nn.Module):
    def __init__(self, base, rank=2, alpha=4):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad = False
        self.lora_A = nn.Parameter(0.1 * torch.randn(rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale, self.merged = alpha / rank, False

    def train(self, mode=True):
        super().train(mode)
        if mode == self.merged:
            sign = -1 if mode else 1
            self.base.weight.data += sign * self.scale * self.lora_B @ self.lora_A
            self.merged = not mode
        return self

    def forward(self, x):
        out = self.base(x)
        return out if self.merged else out + (x @ self.lora_A.T @ self.lora_B.T) * self.scale


torch.manual_seed(0)
x = torch.randn(160, 8)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
for i in (0, 2):
    model[i] = LoRALinear(model[i])
loader = DataLoader(TensorDataset(x[:128], y[:128]), batch_size=16)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    model.train()
    for a, b in loader:
        saw(a, epoch)
        loss = F.mse_loss(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        coadapt.report(validation=F.mse_loss(model(x[128:]), y[128:]).item())
model.train()
save(model)
