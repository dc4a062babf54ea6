"""Functions that other processes can import."""

import os
import time
from pathlib import Path

import numpy as np
import torch

CENTRE = np.full(6, 6**-0.5)


def numpy_bells(x):
    return np.array([1 - np.exp(-((x - CENTRE) ** 2).sum()), 1 - np.exp(-((x + CENTRE) ** 2).sum())])


def torch_bells(x):
    c = torch.from_numpy(CENTRE)
    return torch.stack([1 - torch.exp(-(x - c).square().sum()), 1 - torch.exp(-(x + c).square().sum())])


def sphere(x):
    return 1.0 - (x**2).sum()


class TwoPartsError(Exception):
    """Cannot be unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def failing(x):
    raise TwoPartsError("this", "that")


def exits(x):
    os._exit(3)


def slow_or_failing(x):
    """Fails for one start, and takes long for the others."""
    if x[0] > 0:
        raise KeyError("broken")
    time.sleep(60)
    return x[:2]


def notes_and_sleeps(x):
    (Path(os.environ["BEGUN"]) / str(os.getpid())).touch()
    time.sleep(100)
    return x[:2]
