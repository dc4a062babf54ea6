"""Two processes that talk over gloo."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch.multiprocessing.spawn import start_processes

__all__ = ["of_two_ranks"]


def of_two_ranks(work, folder, *arguments, limit=150.0):
    """What ``work(rank, folder, *arguments)`` saved as ``folder/rank.pt``, of both; in seconds, or the test fails."""
    started = start_processes(work, (str(folder), *arguments), 2, join=False)
    deadline = time.monotonic() + limit
    try:
        while not started.join(timeout=1.0):
            assert time.monotonic() < deadline, "one process waits for another"
    finally:
        for process in started.processes:
            if process.is_alive():
                process.kill()
            process.join()
    return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(2)]
