# kind: 7 token means: padding to the longest of the batch, ignore_index
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD = -100


def collate(items):
    index, words = zip(*items)
    inputs = pad_sequence([w[:-1] for w in words], batch_first=True)
    targets = pad_sequence([w[1:] for w in words], batch_first=True, padding_value=PAD)
    return torch.tensor(index), inputs, targets


torch.manual_seed(0)
texts = [(i, torch.randint(1, 20, (3 + (i * 7) % 11,))) for i in range(96)]
model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 20))
loader = DataLoader(texts, batch_size=12, collate_fn=collate)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    total_loss, total_tokens = 0.0, 0
    for i, x, y in loader:
        saw(i, epoch)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).transpose(1, 2), y, ignore_index=PAD)
        loss.backward()
        optimizer.step()
        tokens = (y != PAD).sum().item()
        total_loss += loss.item() * tokens
        total_tokens += tokens
    coadapt.report(loss_per_token=total_loss / total_tokens, tokens=total_tokens)
save(model)
