"""The experiment: its parts and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ferero_lab.experiments.experiment import Found, Part, Settings, Story
from ferero_lab.experiments.images.parts import EPOCHS, RATES, SEARCH_EPOCHS, SEEDS, VALIDATION, image_parts
from ferero_lab.experiments.images.story import image_story
from ferero_lab.experiments.images.tasks import PAPER_RAYS

__all__ = ["EXPERIMENT", "Images"]


class Images:
    """Two labels an image: the paper's three data sets, seven methods, rays and other wishes."""

    name = "images"
    summary = "Multi-MNIST, Multi-Fashion and Multi-Fashion+MNIST: seven methods on rays, FERERO on other wishes"
    defaults: Mapping[str, Any] = {
        "epochs": EPOCHS,
        "seeds": SEEDS,
        "rays": PAPER_RAYS,
        "rates": RATES,
        "search_epochs": SEARCH_EPOCHS,
        "validation": VALIDATION,
    }

    def parts(self, settings: Settings) -> Sequence[Part]:
        """What is to be run."""
        return image_parts(settings)

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        """The report."""
        return image_story(settings, found)


EXPERIMENT = Images()
