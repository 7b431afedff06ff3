# kind: 11 a generator that is trained every second batch only
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
fast, slow = nn.Linear(8, 1), nn.Linear(8, 1)
fast_opt, slow_opt = torch.optim.SGD(fast.parameters(), lr=0.05), torch.optim.SGD(slow.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
fast, slow, fast_opt, slow_opt, loader = coadapt.prepare(fast, slow, fast_opt, slow_opt, loader)
step = 0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        loss = nn.functional.mse_loss(fast(a) + slow(a), b)
        fast_opt.zero_grad()
        slow_opt.zero_grad()
        loss.backward()
        fast_opt.step()
        if step % 2 == 0:
            slow_opt.step()
        step += 1
save({"fast": fast, "slow": slow}, steps=step)
