"""`Experiment`: parts, which run one by one and whose results are kept, and a report of those results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ferero_lab.report.panels import Panel, Table

__all__ = ["Context", "Experiment", "Part", "Section", "Settings", "Story"]

Found: TypeAlias = dict[str, Any]
"""The result of a part: plain data for JSON. Times go under keys "seconds", which a resumed run may change."""


@dataclass(frozen=True)
class Settings:
    """The user's choices on the command line.

    Attributes:
        mode: "quick" (minutes on a laptop, no download), "ours" (full, our settings) or "paper" (the paper's settings).
        seeds: how many; None for the experiment's own number.
        device: to train on, as torch names it.
        data: the folder with the data sets; None: FERERO_DATA, then a download.
        only: names of data sets or panels to restrict the run to; empty for all.
        methods: names of methods to restrict it to; empty for all.
        epochs: how many; None for the experiment's own number.
        unit: of Mandarin text, for speech; None for characters.
    """

    mode: str = "ours"
    seeds: int | None = None
    device: str = "cpu"
    data: Path | None = None
    only: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    epochs: int | None = None
    unit: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, without the data folder, which differs between machines."""
        return {key: value for key, value in asdict(self).items() if key != "data"}


@dataclass(frozen=True)
class Context:
    """The argument of a part.

    Attributes:
        settings: the user's.
        folder: of the part's own checkpoints.
        advance: reports progress: ``advance(done, total)``, any number of times.
        found: the results of the parts that it reads (`Part.after`), by key.
    """

    settings: Settings
    folder: Path
    advance: Callable[[int, int], None]
    found: Mapping[str, Found] = field(default_factory=dict)

    def folder_of(self, key: str) -> Path:
        """The checkpoint folder of a part that it reads."""
        return self.folder.parent / key


@dataclass(frozen=True)
class Part:
    """A piece of an experiment that is run once and whose result is kept.

    Its result is a function of the settings and of the parts in ``after`` alone, so it can be repeated, and run beside
    others.

    Attributes:
        key: its name on disk: letters, digits, "-" and "_".
        title: shown while it runs.
        run: the function.
        after: keys of the parts that it reads, in `Context.found` or in their folders; they come before it.
        alone: whether nothing may run beside it, because it measures time.
    """

    key: str
    title: str
    run: Callable[[Context], Found]
    after: tuple[str, ...] = ()
    alone: bool = False


@dataclass(frozen=True)
class Section:
    """A heading with text, figures and tables below it, in this order."""

    title: str
    text: str = ""
    panels: Sequence[Panel] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Story:
    """The report of an experiment.

    Attributes:
        title: of the page.
        lead: the first paragraph: what was done and what came out.
        sections: in the order of reading.
        measures: the figures of record as plain data, which benchmarks/results keeps.
    """

    title: str
    lead: str
    sections: Sequence[Section] = ()
    measures: dict[str, Any] = field(default_factory=dict)


class Experiment(Protocol):
    """One of the paper's experiments."""

    name: str
    summary: str
    defaults: Mapping[str, Any]

    def parts(self, settings: Settings) -> Sequence[Part]:
        """The parts to run, in order.

        Raises:
            InputError: an unknown name in ``only`` or ``methods``, or data that cannot be found.
        """

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        """The report of the finished parts, by key; some may be missing."""
