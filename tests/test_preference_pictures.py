"""The pictures of docs/preferences.md are drawn from runs, and the page and the start page say what runs give."""

from __future__ import annotations

import ast
import itertools
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import is_color_like
from PIL import Image

import ferero
from ferero.plot import plot_front, plot_region
from ferero.plot.style._style import DASHES, new_space, page_of, theme

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """The program that draws them."""
    mpl.use("Agg")
    return import_module("preference_pictures")


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run(page: str) -> tuple[dict[str, Any], list[str]]:
    """What a page's snippets leave behind, and what they print, print by print."""
    printed: list[str] = []
    scope: dict[str, Any] = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), scope)
    return scope, printed


def test_every_picture_is_kept_shown_and_small(pictures: ModuleType) -> None:
    names = {f"preference-{name}.png" for name in pictures.PICTURES}
    shown = re.findall(r"\(pictures/([\w-]+\.png)\)", (ROOT / "docs/preferences.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(names)
    for folder in (ROOT / "docs/pictures", ROOT / "docs/pictures/dark"):
        assert {path.name for path in folder.glob("preference-*.png")} == names
        for name in names:
            assert (folder / name).stat().st_size < 40_000, name


def colours_of(path: Path) -> set[tuple[int, ...]]:
    with Image.open(path) as image:
        return {colour for _, colour in image.convert("RGB").getcolors(1 << 20)}


def distance(colour: str, colours: set[tuple[int, ...]]) -> int:
    wanted = bytes.fromhex(colour[1:])
    return min(max(abs(a - b) for a, b in zip(wanted, found, strict=True)) for found in colours)


@pytest.mark.parametrize("name", ["pareto", "and", "cone", "minimize", "three", "unattainable"])
def test_a_picture_can_be_drawn_again_in_both_forms(pictures: ModuleType, name: str, tmp_path: Path) -> None:
    for path, dark in zip(pictures.save(name, tmp_path), (False, True), strict=True):
        assert path.stat().st_size < 40_000
        with Image.open(path) as new, Image.open(ROOT / "docs/pictures" / path.relative_to(tmp_path)) as kept:
            assert abs(new.width - kept.width) < 40  # fonts may differ a little
        with theme(dark=dark):
            page = page_of(mpl.figure.Figure().add_subplot())
        for colour in (page.paper, page.series[0], page.series[1]):  # few colours, and those that mean something
            assert distance(colour, colours_of(path)) <= 6, (path, colour)


def test_every_dark_picture_has_its_light_form_and_dark_paper() -> None:
    with theme(dark=True):
        paper = page_of(mpl.figure.Figure().add_subplot()).paper
    folder = ROOT / "docs/pictures"
    found = {path.name for path in (folder / "dark").glob("*.png")}
    assert {"front.png", "methods.png", "legend.png"} <= found
    for name in found:
        with Image.open(folder / "dark" / name) as dark, Image.open(folder / name) as light:
            assert abs(dark.width - light.width) <= 2, name
            corners = {dark.convert("RGB").getpixel(at) for at in ((0, 0), (dark.width - 1, dark.height - 1))}
        assert distance(paper, corners) <= 3, name


@pytest.mark.parametrize("script", ["front_picture", "legend_picture", "architecture_picture"])
def test_the_other_pictures_are_drawn_in_both_forms(script: str, tmp_path: Path) -> None:
    import_module(script).main(tmp_path)
    drawn = [path.relative_to(tmp_path) for path in tmp_path.rglob("*.png")]
    assert len(drawn) == 2
    for name in drawn:
        with Image.open(tmp_path / name) as new, Image.open(ROOT / "docs/pictures" / name) as kept:
            assert abs(new.width - kept.width) < 40, name
            papers = [picture.convert("RGB").getpixel((0, 0)) for picture in (new, kept)]
            assert papers[0] == papers[1], name
    assert {name.parts[0] == "dark" for name in drawn} == {True, False}


def test_a_line_that_is_wanted_is_dashed_by_every_function() -> None:
    preference = ferero.Preference.ray([1, 2])
    result = ferero.minimize(lambda x: torch.stack([x @ x, (x - 1) @ (x - 1)]), torch.tensor([0.2, 0.9]), preference)
    front = ferero.Front.from_results([result])
    patterns = []
    for draw in (lambda ax: plot_region(preference, ax), lambda ax: plot_front(front, ax, trajectories=False)):
        ax = mpl.figure.Figure().add_subplot()
        draw(ax)
        patterns += [line._unscaled_dash_pattern for line in ax.lines]
    assert len(patterns) == 3  # with the legend's
    assert all(pattern == DASHES for pattern in patterns)


def test_the_third_loss_is_read_from_below() -> None:
    ax = new_space(("a", "b", "c"))
    ax.figure.canvas.draw()
    assert ax.zaxis.label.get_rotation() == 90
    plt.close(ax.figure)


PAINTERS = [
    *(ROOT / "src/ferero/plot").glob("*.py"),
    *(
        ROOT / f"benchmarks/{name}.py"
        for name in ("preference_pictures", "front_picture", "methods_picture", "solver_picture")
    ),
    ROOT / "benchmarks/legend_picture.py",
]


@pytest.mark.parametrize("path", [path for path in PAINTERS if path.name != "style.py"], ids=lambda path: path.name)
def test_colours_are_the_pages_own(path: Path) -> None:
    """A literal colour would be wrong on one of the two pages."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg and "color" in node.arg:
            written = [leaf.value for leaf in ast.walk(node.value) if isinstance(leaf, ast.Constant)]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            written = [
                value.value
                for key, value in pairs
                if isinstance(key, ast.Constant) and "color" in str(key.value) and isinstance(value, ast.Constant)
            ]
        else:
            written = [node.value] if isinstance(node, ast.Constant) and _is_hex(node.value) else []
        named = [value for value in written if isinstance(value, str) and value != "none" and is_color_like(value)]
        assert named == [], f"{path.name}, line {getattr(node, 'lineno', '?')}"


def _is_hex(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"#[0-9A-Fa-f]{3,8}", value) is not None


# as people with two kinds of cones see linear RGB: Machado, Oliveira and Fernandes (2009), severity 1
DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
PROTANOPIA = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
XYZ = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8729]]  # of linear RGB, white is 1


def lightness_and_hue(colour: str, seen_by: list[list[float]]) -> np.ndarray:
    """CIE Lab of a colour as it is seen, (3,)."""
    value = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(np.array(XYZ) @ np.clip(np.array(seen_by) @ linear, 0, 1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen_by", [np.eye(3).tolist(), DEUTERANOPIA, PROTANOPIA], ids=["all", "deutan", "protan"])
@pytest.mark.parametrize("dark", [False, True])
def test_colours_stay_apart_for_colour_blind_readers(seen_by: list[list[float]], dark: bool) -> None:
    with theme(dark=dark):
        series = page_of(mpl.figure.Figure().add_subplot()).series
    for one, other in itertools.combinations(series, 2):
        apart = np.linalg.norm(lightness_and_hue(one, seen_by) - lightness_and_hue(other, seen_by))
        assert apart > 15, (one, other)  # 2 is just seen side by side


def test_what_is_marked_as_reached_is_the_best_of_what_is_wanted(pictures: ModuleType) -> None:
    for name, picture in pictures.PICTURES.items():
        result = pictures.reach(picture.preference)
        assert result.status == picture.status, name
        assert bool(picture.preference.is_satisfied(result.losses, atol=1e-6)) == result.success, name
        if picture.preference.m == 2:
            assert float(result.losses.sqrt().sum()) == pytest.approx(1.0, abs=1e-5), name  # on the front


def test_titles_say_what_is_drawn(pictures: ModuleType) -> None:
    scope = {"f": pictures.f, "g": pictures.g, "abs": abs}
    for name in ("equality", "threshold", "band", "box", "unattainable", "margin", "three"):
        picture = pictures.PICTURES[name]
        written = ferero.Preference(picture.preference.names, eval(f"[{picture.title}]", scope))
        assert str(written) == str(picture.preference), name
    drawn = {name: pictures.PICTURES[name].preference for name in ("ray", "through", "between")}
    for name, preference in drawn.items():
        title = pictures.PICTURES[name].title
        written = eval(f"P.{title[:-1]}, names=f)", {"P": ferero.Preference, "f": pictures.f})
        assert torch.equal(written.B_h, preference.B_h), name
        assert str(written) == str(preference), name


@pytest.mark.slow
def test_a_margin_keeps_noisy_training_clear_of_its_bound(pictures: ModuleType) -> None:
    preference = pictures.PICTURES["margin"].preference
    (constraint,) = preference.constraints
    careless, _ = pictures.steered(ferero.Preference(pictures.f, [constraint.with_margin(0)]), 1500)
    careful, report = pictures.steered(preference, 1500)
    assert careful[:, 1].mean() < 0.27 < careless[:, 1].mean() < 0.33
    assert careful[:, 0].mean() > careless[:, 0].mean()
    assert report.status in ("met", "met_within_noise")


@pytest.mark.slow
def test_the_page_says_what_its_lines_give() -> None:
    pattern = r"(\w+): a = ([\d.]+), b = ([\d.]+)"
    said = re.findall(rf"\)  # {pattern}", "\n".join(blocks("preferences.md", "python")))
    _, printed = run("preferences.md")
    given = [found.groups() for line in printed if (found := re.match(pattern, line))]
    assert len(said) >= 15
    for here, there in zip(said, given, strict=True):
        assert here[0] == there[0]
        assert [float(x) for x in here[1:]] == pytest.approx([float(x) for x in there[1:]], abs=0.011), here


@pytest.mark.slow
def test_the_page_tells_what_cannot_be_had() -> None:
    _, printed = run("preferences.md")
    for told in (
        "strict inequalities are not supported",
        "wer has not been measured yet: call steer.observe(wer=...)",
        "Not met: b <= 0.2",
        "no non-negative losses other than 0 lie along",
        "The constraints hold b up",
        "constraints contradict each other",
        "tensor(True)",
    ):
        assert any(told in line for line in printed), told


def test_printed_preferences_are_read_back() -> None:
    f = ferero.objectives("a", "b")
    for preference in (
        ferero.Preference(f, [abs(f.a - f.b) <= 0.2, (f.b <= 0.3).with_margin(3)]),
        ferero.Preference(f, [f.a - f.b == 0.3], minimize=f.a + 2 * f.b),
    ):
        assert str(ferero.Preference.parse(str(preference), names=f)) == str(preference)


def test_the_start_page_shows_what_is_printed() -> None:
    scope, printed = run("start.md")
    result, report = blocks("start.md", "text")
    found = "\n".join(printed[:2]).splitlines()
    for here, there in zip(result.splitlines(), found, strict=True):
        if not here.startswith(("  stationarity", "  90 steps")):  # these depend on the last digits
            assert here == there
    status = next(line for line in printed if "after 1000 steps" in line)
    assert status.splitlines()[0] == report.splitlines()[0]
    assert status.splitlines()[2].split() == report.splitlines()[2].split()
    assert status.splitlines()[1].split()[:2] == report.splitlines()[1].split()[:2] == ["losses:", "big"]
    roots = [float(scope["error"][mask].mean()) ** 0.5 for mask in (~scope["is_small"], scope["is_small"])]
    assert sum(roots) == pytest.approx(2.5, abs=0.06)
    assert roots[1] ** 2 == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
def test_the_start_page_is_right_about_its_stumbling_stones() -> None:
    scope, _ = run("start.md")
    losses, measured = scope["losses"], scope["measured"]
    f = ferero.objectives("misfit", "rough")
    stuck = ferero.minimize(losses, measured, ferero.Preference(f, [f.misfit <= 0.01]))
    assert stuck.success
    assert stuck.iterations == 0
    said = ferero.minimize(losses, measured, ferero.Preference(f, [f.misfit <= 0.01], minimize=f.rough))
    assert float(said.losses[0]) == pytest.approx(0.01)
    with pytest.raises(ferero.FereroError, match="stack them"):
        ferero.minimize(lambda x: list(losses(x)), scope["start"], ferero.Preference(f))
    with pytest.raises(ferero.FereroError, match="its losses carry no gradient"):
        ferero.minimize(lambda x: losses(x).detach(), scope["start"], ferero.Preference(f))
    with pytest.raises(ferero.FereroError, match="there is no loss 'fw'"):
        scope["steer"]({"big": torch.tensor(1.0, requires_grad=True), "fw": torch.tensor(1.0)})
