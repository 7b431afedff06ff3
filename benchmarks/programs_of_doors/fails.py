import torch

weights = torch.zeros(3)
print("loading weights of another model", flush=True)
weights.copy_(torch.zeros(4))
