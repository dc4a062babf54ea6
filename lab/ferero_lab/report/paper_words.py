"""Words on paper, in letters that some font here has: a picture must not show boxes where Chinese was meant.

matplotlib brings a font without Chinese. One that is installed is used; without any, a text says how many letters it
left out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from textwrap import fill

from ferero_lab.report.style import text_width

__all__ = ["can_print", "families", "paper_lines", "paper_text"]

_CHINESE = (
    "Noto Sans CJK",
    "Noto Sans SC",
    "Source Han Sans",
    "WenQuanYi",
    "PingFang",
    "Hiragino Sans GB",
    "Heiti",
    "Microsoft YaHei",
    "SimHei",
    "Droid Sans Fallback",
    "Arial Unicode",
)  # what their names begin with, on Linux, macOS and Windows


def families() -> list[str]:
    """The font families of matplotlib, and after them one with Chinese where there is one."""
    from matplotlib import rcParams

    chinese = _chinese_font()
    return list(dict.fromkeys([*rcParams["font.family"], *([chinese] if chinese else [])]))


def can_print(text: str) -> bool:
    """Whether the fonts have all its letters."""
    letters = _letters(tuple(families()))
    return all(ord(sign) in letters or sign.isspace() for sign in text)


def paper_text(text: str) -> str:
    """Text as it is: a dollar sign begins no formula, and letters that no font has are counted instead."""
    if not can_print(text):
        letters = _letters(tuple(families()))
        known = "".join(sign if ord(sign) in letters or sign.isspace() else "\0" for sign in text)
        text = re.sub("\0+", _count, known)
    return text.replace("$", r"\$")


def paper_lines(text: str, width: int) -> str:
    """The same in lines of that many letters, half as many where they are Chinese."""
    words = paper_text(text)
    return fill(words, max(width * len(words) // max(text_width(words), 1), 6))


def _count(run: re.Match[str]) -> str:
    count = len(run.group())
    return f"[{count} character{'s' if count > 1 else ''}]"


@lru_cache(maxsize=1)
def _chinese_font() -> str | None:
    """The first of those wanted that is installed; among its forms that for simplified characters."""
    from matplotlib.font_manager import fontManager

    names = {entry.name for entry in fontManager.ttflist if Path(entry.fname).is_file()}
    for wanted in _CHINESE:
        found = sorted((name for name in names if name.startswith(wanted)), key=lambda name: (" SC" not in name, name))
        if found:
            return found[0]
    return None


@lru_cache(maxsize=8)
def _letters(names: tuple[str, ...]) -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[name]))) for name in names]
    return frozenset(code for font in fonts for code in font.get_charmap())
