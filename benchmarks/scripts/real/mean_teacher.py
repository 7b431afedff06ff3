# kind: 11 a teacher that follows the student, updated by hand under no_grad
import copy

import coadapt
import torch
import torch.nn.functional as F
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@torch.no_grad()
def follow(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(decay).add_(s, alpha=1 - decay)


torch.manual_seed(0)
x, y = torch.randn(128, 8), torch.randint(0, 4, (128,))
student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
teacher = copy.deepcopy(student).requires_grad_(False)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
student, teacher, optimizer, loader = coadapt.prepare(student, teacher, optimizer, loader)
global_step = 0
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        out = student(a)
        with torch.no_grad():
            target = teacher(a).softmax(1)
        loss = F.cross_entropy(out, b) + 0.5 * F.mse_loss(out.softmax(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        global_step += 1
        follow(teacher, student, min(1 - 1 / (global_step + 1), 0.95))
save({"student": student, "teacher": teacher}, steps=global_step)
