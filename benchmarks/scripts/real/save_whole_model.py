# kind: 1 torch.save(model) every epoch, loaded back at the end
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(20, hidden), nn.GRU(hidden, hidden, batch_first=True), None
        self.out = nn.Linear(hidden, 5)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


torch.manual_seed(0)
words = torch.randint(0, 20, (96, 6))
tags = words % 5
model = Tagger()
loader = DataLoader(TensorDataset(torch.arange(96), words, tags), batch_size=12)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, w, t in loader:
        saw(i, epoch)
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(w).flatten(0, 1), t.flatten())
        loss.backward()
        optimizer.step()
    torch.save(model, f"model-{coadapt.rank()}.pt")
again = torch.load(f"model-{coadapt.rank()}.pt", weights_only=False)
assert type(again) is Tagger
save({"live": model, "kept": again})
