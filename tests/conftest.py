"""Every worker computes on one thread: the matrices are small, and two workers share two cores."""

import torch

torch.set_num_threads(1)
