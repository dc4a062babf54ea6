"""The README is run: its snippets in order, its commands by name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import matplotlib as mpl
import matplotlib.pyplot as plt
import measured_tables
import pytest

from ferero.training._report import Status

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_snippets_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    mpl.use("Agg")
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
        exec(compile(block, "README.md", "exec"), scope)
    plt.close("all")
    printed = capsys.readouterr().out
    assert "converged" in printed
    shown = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)[0].splitlines()
    told = printed.splitlines()[: len(shown)]
    assert [line.split()[:2] for line in told] == [line.split()[:2] for line in shown]
    assert told[2].split() == shown[2].split()
    error = (scope["model"](scope["inputs"]) - scope["targets"]).square().mean(0)  # type: ignore[operator]
    assert (error[0] - error[1]).item() == pytest.approx(0.5, abs=0.03)  # on all data, not by its own report
    assert all(trained.success for trained in scope["front"])  # type: ignore[attr-defined]
    assert scope["r"].success  # type: ignore[attr-defined]


def test_the_plain_sum_ends_where_the_page_says() -> None:
    block = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0]
    assert 'loss = steer({"zh": zh, "en": en})' in block
    scope: dict[str, Any] = {}
    plain = block.replace('loss = steer({"zh": zh, "en": en})', "loss = zh + en").replace("print(steer.report())", "")
    exec(compile(plain, "README.md", "exec"), scope)
    ends = (scope["model"](scope["inputs"]) - scope["targets"]).square().mean(0).tolist()
    assert f"The plain sum ends at zh {ends[0]:.1f}, en {ends[1]:.1f}." in README


def test_exactly_two_commands_set_everything_up() -> None:
    commands = re.findall(r"^    (make \w+)", README, flags=re.MULTILINE)
    assert commands == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\ndemo: $(LAB)\n" in makefile
    assert "\ntest: $(READY)\n" in makefile
    assert "\n$(READY): $(LAB)\n" in makefile


def test_what_the_readme_links_to_exists() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r'src(?:set)?="([^"]+)"', README)
    for target in targets:
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md"])
def test_the_tables_are_the_measured_ones(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert measured_tables.filled(page, text, measured_tables.results()) == text
    assert sorted(re.findall(r"<!-- (\w+):begin -->", text)) == sorted(measured_tables.PAGES[page])


def test_results_of_record_are_of_full_length_and_all_have_an_origin() -> None:
    found = measured_tables.results()
    assert not any(one.get("quick") for one in found.values())
    table = measured_tables.origins_table(found)
    assert all(f"`{name}.json`" in table for name in found)


def test_every_yes_and_every_figure_beside_a_neighbour_leads_somewhere() -> None:
    rows = measured_tables.neighbours_table(measured_tables.results()).splitlines()[2:]
    assert len(rows) >= 10
    for row in rows:
        for cell in row.strip("| ").split(" | ")[1:]:
            is_no_claim = cell in {measured_tables.NOT_OFFERED, measured_tables.UNKNOWN}
            assert is_no_claim or re.fullmatch(r"\[[^]]+\]\([^)]+\)", cell), cell
            target = re.search(r"\(([^)]+)\)$", cell)
            assert target is None or (ROOT / target[1]).exists(), cell


def test_the_comparison_reads_its_figures_from_the_results() -> None:
    found = json.loads(json.dumps(measured_tables.results()))
    found["core"]["profile"]["solved"]["SLSQP"] = 0.123
    for run in found["cooper"]["runs"]:
        run["worst"] = 0.25
    table = measured_tables.neighbours_table(found)
    assert "[12.3%]" in table
    assert "[0.25, default 0.25]" in table


def test_the_words_of_the_report_are_those_of_the_table() -> None:
    told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `(?:met|not_met|sat|osc).*$", README, re.MULTILINE))))
    assert told == set(get_args(Status))
