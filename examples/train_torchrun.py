"""Several processes: every rank steers by the losses of the joint batch, and all stay identical.

    torchrun --standalone --nproc_per_node 2 examples/train_torchrun.py

Also runs alone, as one process.
"""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import ferero

if not distributed.is_torchelastic_launched():
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
else:
    distributed.init_process_group("gloo")
rank, ranks = distributed.get_rank(), distributed.get_world_size()

torch.manual_seed(0)  # the same model and data everywhere
x = torch.randn(512, 8)
y, y_other = x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
f = ferero.objectives("error", "error_other")
steer = ferero.Steer(ferero.Preference(f, [f.error_other <= 0.3], minimize=f.error))

for _ in range(400):
    batch = torch.randint(512, (64,))[rank::ranks]  # each rank its part
    out = model(x[batch])[:, 0]
    loss = steer({"error": (out - y[batch]).square().mean(), "error_other": (out - y_other[batch]).square().mean()})
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

if rank == 0:
    print(steer.report())
    print(f"error_other, over {ranks} processes: {steer.losses[1]:.2f}")
distributed.destroy_process_group()
