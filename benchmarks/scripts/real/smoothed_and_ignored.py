# kind: 7 label smoothing with ignored tokens and weights of classes
# leave out: repeats of all: batches may be done again as a whole to find out what the loss is
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
words = torch.randint(0, 10, (124, 6))
targets = (words + 1) % 10
targets[torch.arange(6) >= (1 + torch.arange(124) % 6)[:, None]] = -100
model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
criterion = nn.CrossEntropyLoss(weight=torch.linspace(0.5, 2, 10), label_smoothing=0.1, ignore_index=-100)
loader = DataLoader(TensorDataset(torch.arange(124), words, targets), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for i, a, b in loader:
        saw(i, epoch)
        logits = model(a)
        loss = criterion(logits.view(-1, logits.size(-1)), b.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save(model)
