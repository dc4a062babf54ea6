"""An experiment for tests of runs in several processes, which have to import it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ferero.errors import InputError
from ferero_lab.experiments.experiment import Context, Found, Part, Section, Settings, Story
from ferero_lab.report.panels import Table

PATIENCE = 60.0
REFUSAL = "--data: expected the files, found none."
PARTS = {
    "time": {"alone": True},
    "one": {},
    "two": {},
    "sum": {"after": ("one", "two")},
    "three": {},
    "last": {"after": ("sum",)},
}


@dataclass
class MadeUp:
    """Parts that add up what those before them gave, and do on the way what they are told.

    Attributes:
        parts_: key to `Part`'s further fields.
        does: key to "meet KEY" (wait until that part has begun too), "refuse KEY" (raise once that one has begun),
            "hang" or "die"; none of it where the folder ``marks`` has a file "mended".
        marks: where each part leaves its process when it begins.
    """

    marks: Path | None = None
    does: dict[str, str] = field(default_factory=dict)
    parts_: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: PARTS)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    name: str = "made-up"
    summary: str = "for tests"

    def parts(self, settings: Settings) -> Sequence[Part]:
        del settings
        return [Part(key, f"part {key}", partial(self.run, key), **more) for key, more in self.parts_.items()]

    def run(self, key: str, context: Context) -> Found:
        began = time.monotonic()
        context.advance(0, 1)
        if self.marks is not None:
            (self.marks / f"{key}.begun").write_text(str(os.getpid()))
            (self.marks / key).touch()
            if not (self.marks / "mended").exists():
                self._do(*self.does.get(key, "").split())
        (context.folder / "kept").write_text("here")
        return {
            "value": sum(one["value"] for one in context.found.values()) + len(key) / 7,
            "pair": (1, float("nan")),
            "read": sorted(context.found),
            "seconds": {"began": began, "ended": time.monotonic(), "process": os.getpid()},
            "threads": torch.get_num_threads(),
        }

    def _do(self, what: str = "", other: str = "") -> None:
        assert self.marks is not None
        end = time.monotonic() + PATIENCE
        while what in {"meet", "refuse"} and not (self.marks / other).exists():
            assert time.monotonic() < end, f"{other} did not begin"
            time.sleep(0.01)
        if what == "refuse":
            raise InputError(REFUSAL)
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        while what == "hang" and time.monotonic() < end:
            time.sleep(0.01)

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        del settings
        rows = [[key, f"{one['value']:.3f}"] for key, one in found.items()]
        table = Table(["part", "value"], rows, "Values")
        measures = {key: one["value"] for key, one in found.items()}
        return Story("Made up", f"{len(rows)} parts.", [Section("All", "", [], [table])], measures)


EXPERIMENT = MadeUp(
    Path(os.environ["FERERO_TEST_MARKS"]) if "FERERO_TEST_MARKS" in os.environ else None, {"two": "hang"}
)
