# kind: 8 a recurrent network whose hidden state goes on from batch to batch
# expect: refused torchrun, shrink, accumulate, lose, crash: batches that are divided from the first one on
# leave out: repeats of all: every replica computes whole batches, once the state is seen to go on
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
text = torch.randint(0, 12, (8, 12 * 9 + 1))
pieces = [(text[:, i * 9 : i * 9 + 9], text[:, i * 9 + 1 : i * 9 + 10]) for i in range(12)]
x = torch.cat([a for a, _ in pieces])
y = torch.cat([b for _, b in pieces])
embed, rnn, head = nn.Embedding(12, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 12)
model = nn.ModuleDict({"embed": embed, "rnn": rnn, "head": head})
loader = DataLoader(TensorDataset(x, y), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    hidden = None
    for a, b in loader:
        saw(a, epoch)
        out, hidden = model["rnn"](model["embed"](a), hidden)
        hidden = hidden.detach()
        loss = F.cross_entropy(model["head"](out).flatten(0, 1), b.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
