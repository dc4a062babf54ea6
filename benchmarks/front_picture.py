"""Draws docs/pictures/front.png, the demo's picture of ten rays, and docs/pictures/dark/front.png."""

from __future__ import annotations

import sys
from pathlib import Path

from pages import PICTURES, keep_picture

from ferero_lab.demo import run_demo


def main(folder: Path = PICTURES) -> None:
    """As `ferero demo` draws it, on a light page and on a dark one."""
    picture = run_demo().front_picture()
    keep_picture(picture, "front", folder)


if __name__ == "__main__":
    main(*(Path(folder) for folder in sys.argv[1:]))
