"""What the programs of this folder share: tables between the marks of a page, pictures in a light and a dark form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

__all__ = ["PICTURES", "fill", "keep_picture", "markdown", "parts"]

PICTURES = Path(__file__).parents[1] / "docs/pictures"


class TwoForms(Protocol):
    """A picture on a light page and on a dark one, as `ferero_lab.report.draw` gives it."""

    @property
    def png(self) -> bytes: ...
    @property
    def dark(self) -> bytes: ...


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def parts(text: str, name: str) -> tuple[str, str, str]:
    """A page up to the mark ``name:begin`` with it, what lies between, and the page from ``name:end`` on."""
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    before, rest = text.split(begin)
    inside, after = rest.split(end)
    return before + begin, inside, end + after


def fill(text: str, name: str, content: str) -> str:
    """A page with new content between its marks."""
    before, _, after = parts(text, name)
    return before + content + after


def keep_picture(picture: TwoForms, name: str, folder: Path = PICTURES) -> None:
    """Writes ``name.png`` and ``dark/name.png``."""
    (folder / "dark").mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(picture.png)
    (folder / f"dark/{name}.png").write_bytes(picture.dark)
