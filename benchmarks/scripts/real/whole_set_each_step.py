# kind: 4 a graph network: the whole graph at each step, the loss over the nodes of the training set, no loader
import coadapt
import torch
import torch.nn.functional as F
from results import save
from torch import nn

torch.manual_seed(0)
nodes = 40
links = (torch.rand(nodes, nodes) < 0.1).float()
links = ((links + links.T + torch.eye(nodes)) > 0).float()
links = links / links.sum(1, keepdim=True)
features, labels = torch.randn(nodes, 6), torch.randint(0, 3, (nodes,))
train = torch.arange(nodes) % 3 != 0


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x, a):
        return a @ self.two(torch.relu(a @ self.one(x)))


model = GCN()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=5e-4)
model, optimizer, batches = coadapt.prepare(
    model, optimizer, coadapt.batches(lambda: (features, links)), loss="batch"
)
for step in coadapt.steps(30):
    x, a = next(batches)
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x, a)[train], labels[train])
    loss.backward()
    optimizer.step()
save(model)
