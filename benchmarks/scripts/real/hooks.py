# kind: 1 forward hooks that keep activations, tensor hooks that clip gradients
import coadapt
import torch
from results import save, saw
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 8)
y = x @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
features = {}
model[1].register_forward_hook(lambda module, inputs, output: features.update(tanh=output))
model[0].weight.register_hook(lambda grad: 2 * grad)
model[2].register_full_backward_hook(lambda module, grad_in, grad_out: None)
loader = DataLoader(TensorDataset(x, y), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
for epoch in coadapt.epochs(4):
    for a, b in loader:
        saw(a, epoch)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b) + 0.01 * features["tanh"].pow(2).mean()
        loss.backward()
        optimizer.step()
save(model)
