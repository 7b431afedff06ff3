# kind: 6 a count of hits, combined over replicas by the script and kept in the same variable
# leave out: facts metrics of lose crash chain: the count of a replica that is lost is estimated
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

for epoch in coadapt.epochs(6):
    hits = seen = 0
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        F.cross_entropy(out, b).backward()
        optimizer.step()
        hits += (out.argmax(1) == b).sum().item()
        seen += len(b)
    hits, seen = coadapt.combine(hits, "sum"), coadapt.combine(seen, "sum")
    coadapt.report(hits=hits, accuracy=hits / seen)
save(model)
