# kind: 3 the learning rate by a counter of iterations that the script keeps, in a class
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = coadapt.prepare(model, optimizer, loader)
        self.iteration, self.loss_sum, self.samples = 0, 0.0, 0

    def adjust(self):
        for group in self.optimizer.param_groups:
            group["lr"] = 0.1 / (1 + 0.2 * self.iteration)

    def train_epoch(self, epoch):
        self.loss_sum, self.samples = 0.0, 0
        for a, b in self.loader:
            saw(a, epoch)
            self.adjust()
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(a), b)
            loss.backward()
            self.optimizer.step()
            self.iteration += 1
            self.loss_sum += loss.item() * a.shape[0]
            self.samples += a.shape[0]
        return self.loss_sum / self.samples

    def fit(self, epochs):
        for epoch in coadapt.epochs(epochs):
            coadapt.report(train_loss=self.train_epoch(epoch), iteration=self.iteration)


torch.manual_seed(0)
x = torch.randn(123, 8)
y = x @ torch.randn(8, 1)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), DataLoader(TensorDataset(x, y), batch_size=16))
trainer.fit(4)
save(net, iterations=trainer.iteration)
