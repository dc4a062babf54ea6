"""Runs the gallery and fills docs/gallery.md: ``.venv/bin/python benchmarks/gallery.py [NAME ...]``.

Every file of examples/gallery is run twice in a folder of its own, in ferero's light and its dark theme. What it prints
and how long that took go between the marks of the page, its picture to docs/pictures/gallery-NAME.png and
docs/pictures/dark. An example that leaves a page instead of a picture is photographed by a browser, by the command
that `screenshot_command` gives; without a browser the pictures that are there stay as they are, and this is said.
"""

from __future__ import annotations

import importlib
import io
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from contextlib import chdir, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl
import matplotlib.pyplot as plt
import torch
from pages import fill
from PIL import Image

import ferero.plot

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples/gallery"
PICTURES = ROOT / "docs/pictures"
PAGE = ROOT / "docs/gallery.md"
EXAMPLES = {  # in the order of the page, and what the picture shows, for those who cannot see it
    "concave_front": "Losses along the way: rays are met on the concave front, weighted sums end at its ends",
    "adult_fairness": "Log-loss and gap over the steps, with the bound and without",
    "two_tasks": "Losses of two tasks: three rays are met, a plain sum ends elsewhere",
    "three_losses": "Losses, weights, multipliers and violations over the steps",
    "beam_design": "Mass, bend, stress and buckling of three beams",
    "transformer_two_losses": "Losses, weights, multiplier and violation over the steps",
    "traced_report": "The report in a browser: a front with its rays, and a table",
}
MOST_LINES = 40
SIZE = (860, 1120)  # of the browser's window
DOTS = 130  # an inch
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LIBRARIES = ("numpy", "torch", "matplotlib", "transformers.trainer")


@dataclass(frozen=True)
class Run:
    """What one run of an example gave.

    Attributes:
        printed: all of it.
        seconds: from its first line to its last, libraries loaded before.
        picture: as PNG; None where it left a page and there is no browser.
        scope: its names at the end.
    """

    printed: str
    seconds: float
    picture: bytes | None
    scope: dict[str, Any]


def code_lines(text: str) -> int:
    """Lines of code; blank ones, comments and the docstring at the top do not count."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in silent]
    if tokens and tokens[0].type == tokenize.STRING:
        tokens = tokens[1:]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)})


def run(name: str, dark: bool = False) -> Run:
    """Runs an example in a folder that is gone afterwards; the theme is the one named here, whatever it asks for."""
    path = FOLDER / f"{name}.py"
    with tempfile.TemporaryDirectory() as folder, chdir(folder), ferero.plot.theme(dark):
        mpl.rcParams.update({"savefig.dpi": DOTS})
        printed = io.StringIO()
        began = time.perf_counter()
        with redirect_stdout(printed), mock.patch("ferero.plot.theme", return_value=nullcontext()):
            scope = runpy.run_path(str(path), run_name="__main__")
        seconds = time.perf_counter() - began
        plt.close("all")
        report, drawn = Path(name) / "report.html", Path(f"{name}.png")
        picture = screenshot(report.resolve(), dark) if report.exists() else drawn.read_bytes()
    return Run(printed.getvalue(), seconds, picture, scope)


def screenshot(page: Path, dark: bool) -> bytes | None:
    """A picture of a page as a browser shows it; None, and a word, where there is none."""
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        print("no browser: install chromium to photograph the report; the old pictures stay", file=sys.stderr)
        return None
    target = page.with_name("screenshot.png")
    command = screenshot_command(browser, page, target, dark)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if not target.exists():
        print(f"the browser left no picture: {done.stderr[-300:]}", file=sys.stderr)
        return None
    return target.read_bytes()


def screenshot_command(browser: str, page: Path, target: Path, dark: bool) -> list[str]:
    """What photographs a page; time is turned forward until its figures are drawn."""
    width, height = SIZE
    return [
        browser,
        *("--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=4000"),
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={width},{height}",
        f"--screenshot={target}",
        page.as_uri(),
    ]


def small(picture: bytes) -> bytes:
    """The same picture with 128 colours."""
    file = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(128, kmeans=2).save(file, format="png", optimize=True)
    return file.getvalue()


def section(name: str, printed: str, seconds: float) -> str:
    """What stands between an example's marks: the code, the picture, the output."""
    code = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    shown = "\n".join(line.rstrip() for line in printed.rstrip().splitlines())
    return (
        f"```python\n{code}```\n\n![{EXAMPLES[name]}](pictures/gallery-{name}.png)\n\n"
        f"It prints, after {max(1, round(seconds))} s on one core:\n\n```text\n{shown}\n```\n"
    )


def filled(text: str, name: str, printed: str, seconds: float) -> str:
    """The page with one section written anew."""
    return fill(text, name, section(name, printed, seconds))


def keep(name: str) -> None:
    """Runs an example in both themes, keeps its pictures and fills its part of the page."""
    light, dark = run(name), run(name, dark=True)
    if light.printed != dark.printed:
        raise SystemExit(f"{name}: two runs printed different things; seed it.")
    for found, folder in ((light, PICTURES), (dark, PICTURES / "dark")):
        folder.mkdir(exist_ok=True)
        if found.picture is not None:
            (folder / f"gallery-{name}.png").write_bytes(small(found.picture))
    text = filled(PAGE.read_text(encoding="utf-8"), name, light.printed, light.seconds)
    PAGE.write_text(text, encoding="utf-8")
    print(f"{name}: {light.seconds:.1f} s")


def main(names: list[str]) -> None:
    """The examples of these names, or all."""
    mpl.use("Agg")
    torch.set_num_threads(1)
    for library in _LIBRARIES:
        importlib.import_module(library)
    for name in names or EXAMPLES:
        keep(name)


if __name__ == "__main__":
    main(sys.argv[1:])
