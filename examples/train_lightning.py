"""Lightning with automatic optimization: the `Steer` is a submodule, so checkpoints include it."""

import logging
import warnings

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import ferero


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        f = ferero.objectives("left", "right")
        self.steer = ferero.Steer(ferero.Preference(f, [f.left == 2 * f.right]))

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        x, y, z = batch
        out = self.layers(x)[:, 0]
        loss = self.steer({"left": (out - y).square().mean(), "right": (out - z).square().mean()})
        self.log_dict(self.steer.metrics())  # ModelCheckpoint(monitor="ferero/merit") keeps the best feasible model
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.03)


if __name__ == "__main__":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="The 'train_dataloader' does not have many workers")
    warnings.filterwarnings("ignore", message="`isinstance\\(treespec, LeafSpec\\)` is deprecated")
    lightning.seed_everything(0, verbose=False)
    x = torch.randn(512, 8)
    data = DataLoader(TensorDataset(x, x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]), batch_size=64, shuffle=True)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=50, accelerator="cpu", enable_checkpointing=False, **quiet)
    model = Net()
    trainer.fit(model, data)
    print(model.steer.report())
    left, right = model.steer.losses
    print(f"left over right: {left / right:.1f}")
