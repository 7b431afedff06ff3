# kind: 4 sequences grow longer with the steps, as a variable of the loop that get_batch reads says
import coadapt
import torch
from results import save, saw
from torch import nn

torch.manual_seed(0)
text = torch.randint(0, 12, (1500,))
where = torch.Generator().manual_seed(3)
batch_size, block_size = 12, 4


def get_batch():
    ix = torch.randint(len(text) - block_size - 1, (batch_size,), generator=where)
    x = torch.stack([text[i : i + block_size] for i in ix])
    y = torch.stack([text[i + 1 : i + 1 + block_size] for i in ix])
    return ix, x, y


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(12, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 12)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


model = Rnn()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
batches = coadapt.batches(get_batch)
model, optimizer, batches = coadapt.prepare(model, optimizer, batches)
tokens, lengths = 0, []
for step in coadapt.steps(30):
    block_size = 4 if step < 8 else 6 if step < 16 else 10
    lengths.append(block_size)
    ix, x, y = next(batches)
    saw(ix, x.shape[1])
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tokens += y.numel()
    coadapt.report(tokens=tokens)
save(model, lengths=lengths)
