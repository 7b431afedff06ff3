# kind: 1 a language model whose output weights are its embedding's
# leave out: metrics of grow: three replicas share 8 samples as 3, 3 and 2, so that means over batches differ
import math

import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LM(nn.Module):
    def __init__(self, vocab=32, dim=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.block = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True, bias=False)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.wte.weight
        self.dim = dim

    def forward(self, idx, targets):
        mask = nn.Transformer.generate_square_subsequent_mask(idx.size(1))
        logits = self.head(self.block(self.wte(idx) * math.sqrt(self.dim), src_mask=mask, is_causal=True))
        return logits, nn.functional.cross_entropy(logits.view(-1, 32), targets.reshape(-1))


torch.manual_seed(0)
text = torch.randint(0, 32, (64, 9))
model = LM()
loader = DataLoader(TensorDataset(torch.arange(64), text), batch_size=8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    losses = []
    for i, t in loader:
        saw(i, epoch)
        _, loss = model(t[:, :-1], t[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    coadapt.report(perplexity_log=sum(losses) / len(losses))
assert model.head.weight is model.wte.weight
save(model)
