# kind: 6 AverageMeter and accuracy in per cent, as in the ImageNet example
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
        return [correct[:k].reshape(-1).float().sum(0) * 100.0 / target.size(0) for k in topk]


def train(loader, model, criterion, optimizer, epoch):
    losses, top1, top2 = AverageMeter("Loss"), AverageMeter("Acc@1"), AverageMeter("Acc@2")
    model.train()
    for i, (images, target) in enumerate(loader):
        saw(images, epoch)
        output = model(images)
        loss = criterion(output, target)
        acc1, acc2 = accuracy(output, target, topk=(1, 2))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1.item(), images.size(0))
        top2.update(acc2.item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 4 == 0:
            print(f"{epoch} [{i}/{len(loader)}] loss {losses.val:.4f} ({losses.avg:.4f})")
    coadapt.report(loss=losses.avg, acc1=top1.avg, acc2=top2.avg)


torch.manual_seed(0)
x, y = torch.randn(125, 8), torch.randint(0, 4, (125,))
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    train(loader, model, nn.CrossEntropyLoss(), optimizer, epoch)
save(model)
