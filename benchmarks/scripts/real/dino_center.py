# kind: 11 DINO: a teacher and a loss module whose center is an average over its outputs
# leave out: model of torchrun: the first batch is given twice, and moves the center twice
# leave out: repeats of all: every replica computes whole batches, since the center is of whole ones
import copy

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class DINOLoss(nn.Module):
    def __init__(self, out, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(1, out))

    def forward(self, student, teacher):
        soft = F.softmax((teacher - self.center) / 0.1, dim=-1).detach()
        loss = torch.sum(-soft * F.log_softmax(student / 0.2, dim=-1), dim=-1).mean()
        self.update_center(teacher)
        return loss

    @torch.no_grad()
    def update_center(self, teacher):
        batch_center = torch.sum(teacher, dim=0, keepdim=True) / len(teacher)
        self.center = self.center * self.momentum + batch_center * (1 - self.momentum)


torch.manual_seed(0)
one = torch.randn(128, 8)
two = one + 0.2 * torch.randn(128, 8)
student = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 5))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad = False
criterion = DINOLoss(5)
loader = DataLoader(TensorDataset(one, two), batch_size=16)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
student, teacher, criterion, optimizer, loader = coadapt.prepare(student, teacher, criterion, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        loss = criterion(student(a), teacher(b))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for s, t in zip(student.parameters(), teacher.parameters()):
                t.data.mul_(0.95).add_(0.05 * s.detach().data)
save({"student": student, "teacher": teacher, "loss": criterion})
