# kind: 8 words are masked by the collate function, with a generator of its own; the model returns a mapping
# leave out: model of torchrun, grow, shrink, move, accumulate, lose, crash, chain: masks are drawn row by row
import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader


class Masker:
    def __init__(self):
        self.draw = torch.Generator().manual_seed(3)

    def __call__(self, rows):
        words = torch.stack([row["words"] for row in rows])
        labels = words.clone()
        hidden = torch.rand(words.shape, generator=self.draw) < 0.3
        hidden[:, 0] = True
        labels[~hidden] = -100
        return {
            "words": words.masked_fill(hidden, 0),
            "labels": labels,
            "ids": torch.stack([r["id"] for r in rows]),
        }


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(20, 12), nn.Linear(12, 12), nn.Linear(12, 20)

    def forward(self, words, labels):
        h = self.embed(words)
        logits = self.head(torch.tanh(self.mix(h + h.mean(1, keepdim=True))))
        return {"loss": F.cross_entropy(logits.view(-1, 20), labels.view(-1), ignore_index=-100), "logits": logits}


torch.manual_seed(0)
rows = [{"words": torch.randint(1, 20, (7,)), "id": torch.tensor(i)} for i in range(132)]
model = Model()
loader = DataLoader(rows, batch_size=16, collate_fn=Masker())
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for batch in loader:
        saw(batch.pop("ids"), epoch)
        out = model(**batch)
        optimizer.zero_grad()
        out["loss"].backward()
        optimizer.step()
save(model)
