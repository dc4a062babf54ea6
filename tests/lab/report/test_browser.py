"""The report in a browser, as a reader meets it: drawn, hovered, clicked, by night; and nothing is fetched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from tests.lab.report.stories import CONFIG, SENTENCE, rich_story

from ferero_lab.report.story import story_page
from ferero_lab.report.style import PAPER, Palette

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium"),
]


@dataclass
class Visit:
    """A page and what it did behind the scenes."""

    page: playwright.Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def points(self, graph: int) -> int:
        return self.page.locator(f"#graph-{graph} .point").count()

    def wait_until(self, condition: str) -> None:
        """Playwright's own waiting evaluates text in the page, which the page forbids."""
        for _ in range(100):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"never true: {condition}")


@pytest.fixture(scope="module")
def visit(tmp_path_factory) -> Iterator[Visit]:
    place = tmp_path_factory.mktemp("run") / "report.html"
    story = rich_story()
    palette = Palette(section.panels for section in story.sections)
    place.write_bytes(story_page(story, CONFIG, palette))
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
            visit = Visit(context.new_page())
            context.route("**/*", lambda route: _only_files(route, visit))
            visit.page.on("request", lambda request: visit.requests.append(request.url))
            visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
            visit.page.on("console", lambda said: said.type == "error" and visit.complaints.append(said.text))
            visit.page.goto(place.as_uri())
            visit.page.wait_for_selector("#graph-9 .point")
            yield visit
        finally:
            browser.close()


def _only_files(route, visit: Visit) -> None:
    if route.request.url.startswith(("file:", "data:", "blob:")):
        route.continue_()
    else:
        visit.complaints.append(f"asked for {route.request.url}")
        route.abort()


def test_a_point_tells_its_preference_losses_and_details(visit):
    spot = visit.page.locator("#graph-1 .point").first.bounding_box()
    visit.page.mouse.move(spot["x"] + spot["width"] / 2 - 2, spot["y"] + spot["height"] / 2)
    visit.page.mouse.move(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    label = visit.page.locator("#graph-1 .hoverlayer .hovertext")
    label.wait_for()
    lines = [line.strip() for line in label.locator("tspan.line").all_text_contents()]
    assert lines[:4] == ["ray 1 : 3", "FERERO", "f1: 0.1961", "f2: 0.5882"]
    assert lines[4:] == [
        "weights: 0.31, 0.69",
        "violation: 0.000",
        "seed: 0",
        "status: converged",
        "bound: f1 <= 0.3 & f2 > 0",
    ]


def test_the_legend_hides_and_shows_in_all_panels_of_its_section(visit):
    section = visit.page.locator("section").first
    assert [visit.points(graph) for graph in (1, 2, 3)] == [15, 15, 15]
    method = section.get_by_role("button", name="FERERO")
    method.click()
    assert [visit.points(graph) for graph in (1, 2, 3)] == [12, 12, 12]
    assert method.get_attribute("aria-pressed") == "false"
    section.get_by_role("button", name="ray 1 : 3").click()
    assert visit.points(1) == 8
    method.click()
    section.get_by_role("button", name="ray 1 : 3").click()
    method.dblclick()
    assert visit.points(1) == 3
    method.dblclick()
    assert visit.points(1) == 15


def test_the_night_has_its_own_colours(visit):
    paper = "document.querySelector('#graph-9').layout.paper_bgcolor"
    assert visit.page.evaluate(paper) == PAPER.light
    visit.page.emulate_media(color_scheme="dark")
    visit.wait_until(f"{paper} === '{PAPER.dark}'")
    visit.page.emulate_media(color_scheme="light")
    visit.wait_until(f"{paper} === '{PAPER.light}'")


def test_a_phone_needs_no_sideways_scrolling(visit):
    visit.page.set_viewport_size({"width": 400, "height": 800})
    visit.wait_until("document.documentElement.scrollWidth <= 400")
    tables = "[...document.querySelectorAll('.wide')].at(-2)"
    assert visit.page.evaluate(f"{tables}.scrollWidth - {tables}.clientWidth") <= 8
    visit.page.set_viewport_size({"width": 1280, "height": 900})


def test_labels_above_a_matrix_do_not_touch_on_any_screen(visit):
    shown = {}
    for width in (400, 1280):
        visit.page.set_viewport_size({"width": width, "height": 900})
        visit.page.wait_for_timeout(800)
        boxes = [label.bounding_box() for label in visit.page.locator("#graph-10 .annotation-text").all()]
        shown[width] = len(boxes)
        for i, one in enumerate(boxes):
            for other in boxes[i + 1 :]:
                is_beside = abs(one["x"] - other["x"]) > 0.5 * (one["width"] + other["width"]) - 2
                assert is_beside or abs(one["y"] - other["y"]) > 10
    assert shown[1280] == len(SENTENCE)
    assert 10 <= shown[400] <= len(SENTENCE)


def test_nothing_was_fetched_and_nothing_went_wrong(visit):
    assert visit.complaints == []
    assert [url for url in visit.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_no_button_sends_the_data_away(visit):
    titles = visit.page.locator(".modebar-btn").evaluate_all("all => all.map((one) => one.dataset.title)")
    assert titles
    assert not [title for title in titles if "share" in title.lower() or "cloud" in title.lower()]
