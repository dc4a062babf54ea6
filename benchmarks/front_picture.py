"""Draws docs/pictures/front.png, the demo's picture of ten rays, and docs/pictures/dark/front.png."""

from __future__ import annotations

import sys
from pathlib import Path

from ferero_lab.demo import run_demo

FOLDER = Path(__file__).parents[1] / "docs/pictures"


def main(folder: Path = FOLDER) -> None:
    """As `ferero demo` draws it, on a light page and on a dark one."""
    picture = run_demo().front_picture()
    (folder / "dark").mkdir(parents=True, exist_ok=True)
    (folder / "front.png").write_bytes(picture.png)
    (folder / "dark/front.png").write_bytes(picture.dark)


if __name__ == "__main__":
    main(*(Path(folder) for folder in sys.argv[1:]))
