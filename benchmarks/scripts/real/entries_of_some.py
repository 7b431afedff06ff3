# kind: 6 lists of some samples, as for an area under a curve; predictions that torch.cat and numpy put together
# leave out: facts metrics of lose chain: the entries of a replica that is lost are lost with it
import coadapt
import numpy as np
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(132, 6)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)

all_hard, all_hard_losses = [], []
for epoch in coadapt.epochs(4):
    of_ones, of_others = [], []
    preds, labels, scores = torch.tensor([]), torch.tensor([], dtype=torch.long), np.array([])
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        losses = F.cross_entropy(out, b, reduction="none")
        losses.mean().backward()
        optimizer.step()
        score = out.detach().softmax(1)[:, 1]
        of_ones += score[b == 1].tolist()
        of_others.extend(score[b == 0].tolist())
        preds = torch.cat([preds, out.detach().argmax(1)])
        labels = torch.cat([labels, b])
        scores = np.append(scores, score.numpy())
        hard = losses.detach() > 0.6
        all_hard += a[hard, 0].tolist()
        all_hard_losses += losses.detach()[hard].tolist()
    coadapt.report(
        accuracy=(preds == labels).float().mean(),
        count=len(preds),
        ones=len(of_ones),
        of_ones=float(np.mean(of_ones)),
        of_others=float(np.mean(of_others)),
        score=float(scores.mean()),
    )
found = sorted(zip(all_hard, all_hard_losses, strict=True))
total = coadapt.combine(float(sum(loss for _, loss in found)), "sum")
save(model, hard=int(coadapt.combine(len(found), "sum")), losses=round(float(total), 2))
