"""The pictures of docs/preferences.md are drawn from runs, and the page and the start page say what runs give."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import pytest
import torch
from PIL import Image

import ferero

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """The program that draws them, as a module."""
    mpl.use("Agg")
    spec = importlib.util.spec_from_file_location("preference_pictures", ROOT / "benchmarks/preference_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


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
    assert {path.name for path in (ROOT / "docs/pictures").glob("preference-*.png")} == names
    shown = re.findall(r"\(pictures/([\w-]+\.png)\)", (ROOT / "docs/preferences.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(names)
    for name in names:
        assert (ROOT / "docs/pictures" / name).stat().st_size < 40_000, name


@pytest.mark.parametrize("name", ["pareto", "and", "cone", "minimize", "three", "unattainable"])
def test_a_picture_can_be_drawn_again(pictures: ModuleType, name: str, tmp_path: Path) -> None:
    path = pictures.save(name, tmp_path)
    assert path.stat().st_size < 40_000
    with Image.open(path) as new, Image.open(ROOT / "docs/pictures" / path.name) as kept:
        assert abs(new.width - kept.width) < 40  # fonts may differ a little
        colours = {colour for _, colour in new.convert("RGB").getcolors(1 << 20)}
    wanted = {tuple(bytes.fromhex(colour[1:])) for colour in (pictures.WISH, pictures.REACHED, "#FFFFFF")}
    for colour in wanted:  # few colours, but the ones that mean something are among them
        assert min(max(abs(a - b) for a, b in zip(colour, c, strict=True)) for c in colours) <= 6, (name, colour)


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


def test_a_margin_keeps_noisy_training_clear_of_its_bound(pictures: ModuleType) -> None:
    wish = pictures.PICTURES["margin"].preference
    (constraint,) = wish.constraints
    careless, _ = pictures.steered(ferero.Preference(pictures.f, [constraint.with_margin(0)]), 1500)
    careful, report = pictures.steered(wish, 1500)
    assert careful[:, 1].mean() < 0.27 < careless[:, 1].mean() < 0.33
    assert careful[:, 0].mean() > careless[:, 0].mean()
    assert report.status in ("met", "met_within_noise")


def test_the_page_says_what_its_lines_give() -> None:
    pattern = r"(\w+): a = ([\d.]+), b = ([\d.]+)"
    said = re.findall(rf"\)  # {pattern}", "\n".join(blocks("preferences.md", "python")))
    _, printed = run("preferences.md")
    given = [found.groups() for line in printed if (found := re.match(pattern, line))]
    assert len(said) >= 15
    for here, there in zip(said, given, strict=True):
        assert here[0] == there[0]
        assert [float(x) for x in here[1:]] == pytest.approx([float(x) for x in there[1:]], abs=0.011), here


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
    for wish in (
        ferero.Preference(f, [abs(f.a - f.b) <= 0.2, (f.b <= 0.3).with_margin(3)]),
        ferero.Preference(f, [f.a - f.b == 0.3], minimize=f.a + 2 * f.b),
    ):
        assert str(ferero.Preference.parse(str(wish), names=f)) == str(wish)


def test_the_start_page_shows_what_is_printed() -> None:
    scope, printed = run("start.md")
    result, report = blocks("start.md", "text")
    found = "\n".join(printed[:2]).splitlines()
    for here, there in zip(result.splitlines(), found, strict=True):
        if not here.startswith(("  stationarity", "  90 steps")):  # these depend on the last digits
            assert here == there
    status = next(line for line in printed if "after 600 steps" in line)
    assert status.splitlines()[0] == report.splitlines()[0]
    assert status.splitlines()[1].split() == report.splitlines()[1].split()
    roots = [float(scope["error"][mask].mean()) ** 0.5 for mask in (~scope["is_small"], scope["is_small"])]
    assert sum(roots) == pytest.approx(2.5, abs=0.06)
    assert roots[1] ** 2 == pytest.approx(1.0, abs=0.1)


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
