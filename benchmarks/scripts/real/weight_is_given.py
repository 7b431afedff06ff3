# kind: 7 a mean over words that no graph shows, said by coadapt.weight
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MeanOfWords(torch.autograd.Function):
    @staticmethod
    def forward(ctx, errors, counts):
        ctx.save_for_backward(counts, torch.tensor(errors.shape))
        return errors.sum() / counts.sum()

    @staticmethod
    def backward(ctx, grad):
        counts, shape = ctx.saved_tensors
        return grad / counts.sum() * torch.ones(shape.tolist()), None


torch.manual_seed(0)
x, counts = torch.randn(125, 8), torch.randint(1, 30, (125,)).sort().values
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
loader = DataLoader(TensorDataset(x, y, counts), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b, n in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        errors = ((model(a) - b) ** 2).squeeze(1) * n
        coadapt.weight(n.sum())
        MeanOfWords.apply(errors, n).backward()
        optimizer.step()
save(model)
