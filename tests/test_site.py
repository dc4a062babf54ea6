"""The site builds without a warning, has every public name and no dead link, and says nothing of the machine."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", exc_type=ImportError)
pytest.importorskip("furo", exc_type=ImportError)
pytest.importorskip("myst_parser", exc_type=ImportError)

ROOT = Path(__file__).parents[1]
MODULES = [  # all of their public names are described; of ferero.subprogram those that ferero itself exports
    *("ferero", "ferero.errors", "ferero.preference", "ferero.geometry", "ferero.methods", "ferero.optimize"),
    *("ferero.training", "ferero.fronts", "ferero.plot", "ferero.rates", "ferero.integrations.torchjd"),
]

PICTURE = r"(?:!\[[^\]]*\]\(|\{(?:figure|image)\} )pictures/([\w-]+\.png)"

pytestmark = pytest.mark.slow


@dataclass
class Page(HTMLParser):
    """What a built page links to, and what can be linked to in it."""

    path: Path
    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # file and classes

    def __post_init__(self) -> None:
        super().__init__()
        self.text = self.path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in {"href", "src"} and value and tag != "use":
                self.links.append(value)
        if tag == "img":
            given = dict(attrs)
            self.pictures.append((given.get("src") or "", given.get("class") or ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("site").resolve()
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(folder / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder / "html")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return {path: Page(path) for path in sorted((folder / "html").rglob("*.html"))}


def test_every_page_of_the_folder_is_on_the_site(site: dict[Path, Page]) -> None:
    built = {path.stem for path in site}
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= built


def test_every_public_name_is_described(site: dict[Path, Page]) -> None:
    described = set().union(*(page.ids for path, page in site.items() if path.parent.name == "api"))
    exported = set(importlib.import_module("ferero").__all__)
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            whole = f"ferero.{name}" if name in exported else f"{module}.{name}"
            is_module = isinstance(getattr(importlib.import_module(module), name), ModuleType)
            entry = f"module-{whole}" if is_module else whole
            assert entry in described, f"{whole} has no entry in docs/api"


def test_no_link_is_dead(site: dict[Path, Page]) -> None:
    dead = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            found = target.is_file() and (not anchor or target not in site or anchor in site[target].ids)
            if not found:
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_pages_load_nothing_from_elsewhere(site: dict[Path, Page]) -> None:
    for path, page in site.items():
        loaded = re.findall(r"<(?:script|link|img)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"", page.text)
        assert loaded == [], path.name


def test_pages_say_nothing_of_the_machine(site: dict[Path, Page]) -> None:
    for path, page in site.items():
        found = re.search(r"(?<![\w.])/(?:tmp|home|work|root|Users)/\S*", page.text)
        assert found is None, f"{path.name}: {found and found.group()}"
        assert str(ROOT) not in page.text, path.name
        assert " object at 0x" not in page.text, path.name


def test_backticks_of_docstrings_and_type_hints_lead_to_names(site: dict[Path, Page]) -> None:
    page = next(page for path, page in site.items() if path.parts[-2:] == ("api", "minimize.html"))
    assert "preferences.html#ferero.Preference" in page.links  # a type hint
    assert "errors.html#ferero.errors.InputError" in page.links  # Raises
    assert "#ferero.Result" in page.links  # `Result` in a sentence
    assert not any("ForwardRef" in page.text for page in site.values())
    assert '<span class="gp">&gt;&gt;&gt; </span>' in page.text  # an example is code


def test_pictures_with_a_dark_form_are_shown_in_both(site: dict[Path, Page]) -> None:
    folder = ROOT / "docs/pictures"
    seen = set()
    for path, page in site.items():
        source = ROOT / "docs" / f"{path.stem}.md"
        if path.parent.name == "api" or not source.is_file():
            continue
        expected = []
        for name in re.findall(PICTURE, source.read_text(encoding="utf-8")):
            has_dark = (folder / "dark" / name).is_file()
            forms = [(folder / name, "only-light"), (folder / "dark" / name, "only-dark")]
            expected += forms if has_dark else [(folder / name, "")]
            seen.add(has_dark)
        found = [((path.parent / src).read_bytes(), kind) for src, kind in page.pictures]
        assert found == [(file.read_bytes(), kind) for file, kind in expected], path.name
    assert seen == {True, False}


def test_dark_pages_have_the_paper_of_dark_pictures(site: dict[Path, Page]) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from ferero.plot.style._style import page_of, theme

    with theme(dark=True):
        paper = page_of(Figure().add_subplot()).paper
    assert all(f"--color-background-primary: {paper}" in page.text for page in site.values())


def test_the_light_form_is_printed(site: dict[Path, Page]) -> None:
    """The theme hides dark forms, and shows them only in a dark scheme that is not printed."""
    folder = next(path.parent for path in site if path.name == "index.html" and path.parent.name == "html")
    before, after = (folder / "_static/styles/furo.css").read_text(encoding="utf-8").split("@media not print", 1)
    assert "html body .only-dark{display:none!important}" in before
    assert ".only-dark{display:block!important}" not in before
    assert "body[data-theme=dark] .only-dark{display:block!important}" in after
