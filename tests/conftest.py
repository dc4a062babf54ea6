"""Every worker computes on one thread: the matrices are small, and two workers share two cores.

Without AMX: some virtual machines announce it and stop at its first instruction, as soon as bfloat16 is multiplied.
"""

import os

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # oneDNN reads it at its first use

import torch

torch.set_num_threads(1)
