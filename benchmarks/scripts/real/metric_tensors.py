# kind: 6 metrics kept in tensors: a confusion matrix in a class, a running sum on the device
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Confusion:
    def __init__(self, classes):
        self.classes = classes
        self.reset()

    def reset(self):
        self.matrix = torch.zeros(self.classes, self.classes, dtype=torch.long)

    def update(self, predicted, target):
        index = target * self.classes + predicted
        self.matrix += torch.bincount(index, minlength=self.classes**2).view(self.classes, self.classes)

    def recall(self):
        return (self.matrix.diag() / self.matrix.sum(1).clamp(min=1)).mean()


torch.manual_seed(0)
x, y = torch.randn(125, 8), torch.randint(0, 3, (125,))
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
confusion = Confusion(3)
for epoch in coadapt.epochs(4):
    confusion.reset()
    loss_sum = torch.zeros(())
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        out = model(a)
        loss = nn.functional.cross_entropy(out, b)
        loss.backward()
        optimizer.step()
        loss_sum += loss.detach() * len(a)
        confusion.update(out.argmax(1), b)
    coadapt.report(loss=loss_sum / confusion.matrix.sum(), rows=int(confusion.matrix.sum()))
save(model)
