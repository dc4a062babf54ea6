"""The demonstration behind `ferero demo`."""

from __future__ import annotations

from ferero_lab.demo.demo import FILES, Demo, run_demo
from ferero_lab.demo.training import DemoTraining, follow_training, show_training, train_demo

__all__ = ["FILES", "Demo", "DemoTraining", "follow_training", "run_demo", "show_training", "train_demo"]
