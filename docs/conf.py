"""How the site is built: `sphinx-build -W --keep-going -b html docs build/docs`."""

from __future__ import annotations

import importlib
import re
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.environment import BuildEnvironment

import ferero

ROOT = Path(__file__).parents[1]

project = "ferero"
author = "The ferero developers"
version = release = ferero.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_static", "_templates"]

# pages
myst_heading_anchors = 4  # the anchors that `page.md#a-heading` means
html_theme = "furo"
html_title = f"ferero {version}"
html_static_path = ["_static"]
html_css_files = ["ferero.css"]
html_show_sphinx = html_show_copyright = False
html_copy_source = html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0072B2"},
    "dark_css_variables": {
        "color-brand-primary": "#56B4E9",
        "color-brand-content": "#56B4E9",
        "color-background-primary": "#14171A",  # the paper of dark pictures
    },
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

# the reference, made of docstrings
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {  # shown by name and explained once, in api/index; choices of words are spelled out instead
    name: name
    for name in (
        *("Array", "ArrayLike", "Callback", "Counts", "Function", "Losses", "LossFunction", "Metrics", "Names"),
        *("Operand", "OptimizerFactory", "Point", "ScheduleFactory", "Solver", "Splitter", "Watcher", "Workers"),
    )
}
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, as for arguments
python_use_unqualified_type_names = True
maximum_signature_line_length = 140  # counted with the modules that are not shown
python_display_short_literal_types = True
python_trailing_comma_in_multi_line_signatures = False
toc_object_entries_show_parents = "hide"
default_role = "said"

MODULES = (
    *("ferero", "ferero.errors", "ferero.preference", "ferero.geometry", "ferero.methods", "ferero.optimize"),
    *("ferero.training", "ferero.fronts", "ferero.plot", "ferero.subprogram", "ferero.integrations.torchjd"),
    *("ferero.files", "ferero.plot.style", "ferero.cli"),
)
PUBLIC: dict[str, str] = {}  # a public name, and the whole one under which the reference has it
for _module in MODULES:
    for _name in importlib.import_module(_module).__all__:
        PUBLIC.setdefault(_name, f"{_module}.{_name}")


def public_name(target: str) -> str | None:
    """`ferero.optimize._result.Result.success` as the reference has it; None for what is not ours.

    A bare word in lower case is no reference: it may be an argument as well as a function.
    """
    words = target.removesuffix("()").split(".")
    if not target.startswith("ferero.") and words[0].islower():
        return None
    at = next((i for i, word in enumerate(words) if word in PUBLIC), None)
    return None if at is None else ".".join([PUBLIC[words[at]], *words[at + 1 :]])


def said(
    _name: str, raw: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """What single backticks mean in docstrings: code, and a link where it is one of our names."""
    if re.fullmatch(r"[\w.]+(\(\))?", text) and public_name(text):
        return PyXRefRole()("py:obj", raw, text, line, inliner, options or {}, content)
    return [nodes.literal(raw, nodes.unescape(text))], []


def find_name(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, shown: nodes.Element) -> Any:
    """Links a class that is named by the file that defines it, as type hints are, to where it is described."""
    whole = public_name(node["reftarget"]) if node.get("refdomain") == "py" else None
    domain = env.domains.python_domain
    if whole is None or whole not in domain.objects:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", whole, node, shown)


def show_formulas(_app: Sphinx, _kind: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Makes code of what is indented in running text, as markdown does: the update rules of the methods."""
    out: list[str] = []
    is_kept = False  # inside a section, or a formula that has begun
    for line in lines:
        if line[:1].strip():
            is_kept = re.fullmatch(r"(Args|Attributes|Returns|Yields|Raises|Examples?|Notes?):", line) is not None
        elif line.strip() and out and not out[-1] and not is_kept:
            out += [".. code-block:: text", ""]
            is_kept = True
        out.append(line)
    lines[:] = out


def show_aliases(
    _app: Sphinx, _kind: str, _name: str, _thing: Any, _options: Any, arguments: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Writes an alias by its name also within a union, where Sphinx writes how it holds it, and `...` for a factory."""
    if arguments is not None:
        arguments = _HELD_ALIAS.sub(r"\1", arguments).replace("<factory>", "...")
    return arguments, None if returned is None else _HELD_ALIAS.sub(r"\1", returned)


_HELD_ALIAS = re.compile(r"[\w.~]*TypeAliasForwardRef\('(\w+)'\)")


def name_places(app: Sphinx, document: nodes.document) -> None:
    """Shows a link to a folder, or to a page of the repository that is not of the site, as its name.

    The site is complete in itself. Other files that a page links to are copied by myst, and downloaded from the copy; a
    folder has no page, and where the repository lies is not the site's to know.
    """
    here = Path(app.env.doc2path(app.env.docname)).parent
    for node in list(document.findall(addnodes.pending_xref)):
        place = _place(here, node) if node.get("reftype") == "myst" else None
        if place is not None:
            name = nodes.literal(place, place)
            shown = [*node.children, nodes.Text(" ("), name, nodes.Text(")")]
            node.replace_self([name] if node.astext().strip("/") == place else shown)


def _place(here: Path, node: addnodes.pending_xref) -> str | None:
    target = (here / node["reftarget"]).resolve()
    if node.get("refdomain") == "doc":  # without its ending, and whole where it is outside docs
        target = target.with_name(f"{target.name}.md")
    if not target.exists() or not target.is_relative_to(ROOT) or target.is_relative_to(ROOT / "docs"):
        return None
    return target.relative_to(ROOT).as_posix()


def show_dark_pictures(app: Sphinx, document: nodes.document) -> None:
    """Adds to `pictures/X.png` its form for dark pages, `pictures/dark/X.png`, where there is one.

    Pages name the light form alone, which is what a repository shows. The theme shows one of the two by their classes,
    and prints the light one.
    """
    here = Path(app.env.doc2path(app.env.docname)).parent
    for light in list(document.findall(nodes.image)):
        place = PurePosixPath(light["uri"])
        dark_uri = (place.parent / "dark" / place.name).as_posix()
        if (here / dark_uri).is_file():
            dark = nodes.image(**{**light.attributes, "ids": [], "names": [], "uri": dark_uri})
            light["classes"] = [*light["classes"], "only-light"]
            dark["classes"] = [*dark["classes"], "only-dark"]
            light.replace_self([light, dark])


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers what is above."""
    app.add_role("said", said)
    app.connect("missing-reference", find_name)
    app.connect("autodoc-process-docstring", show_formulas, priority=400)  # napoleon comes at 500
    app.connect("autodoc-process-signature", show_aliases)
    app.connect("doctree-read", name_places)
    app.connect("doctree-read", show_dark_pictures, priority=400)  # Sphinx collects pictures at 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
