# kind: 3 two loaders in one loop, as CycleGAN pairs its two sets of pictures
# leave out: repeats of grow: three parts are no shares of the second loader's batch: each computes whole ones
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader_a = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=16)
loader_b = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=16)
there, back = nn.Linear(4, 4), nn.Linear(4, 4)
optimizer = torch.optim.Adam([*there.parameters(), *back.parameters()], lr=0.01, eps=1e-3)
there, back, optimizer, loader_a = coadapt.prepare(there, back, optimizer, loader_a)
for epoch in coadapt.epochs(6):
    for (a,), (b,) in zip(loader_a, loader_b):
        saw(a, epoch)
        optimizer.zero_grad()
        loss = (back(there(a)) - a).abs().mean() + (there(back(b)) - b).abs().mean()
        loss.backward()
        optimizer.step()
save({"there": there, "back": back})
