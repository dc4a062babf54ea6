"""How a page looks: by day and by night, on a wide screen and on a phone."""

from __future__ import annotations

__all__ = ["GRAPH_STYLE", "STYLE"]

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --soft: #5f6368; --line: #dadce0;
  --good: #00704f; --fair: #9a4a00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e8e8e8; --soft: #a0a6ad;
  --line: #33383d; --good: #4cc9a0; --fair: #f0b060; --bad: #ff8a80; } }
body { background: var(--paper); color: var(--ink); margin: 0 auto; max-width: 54rem;
  padding: 2.5rem 1.25rem 4rem;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .5rem; }
p { margin: .5rem 0; }
pre { border-left: 3px solid var(--line); font: .9rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  margin: .8rem 0; overflow-x: auto; padding: .2rem 0 .2rem .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; margin: .8rem 0;
  white-space: nowrap; }
th { border-bottom: 1px solid var(--ink); font-weight: 600; text-align: right; }
td { border-bottom: 1px solid var(--line); text-align: right; }
th, td { padding: .3rem .75rem; }
th:first-child, td:first-child { padding-left: 0; text-align: left; }
td.converged { color: var(--good); } td.unattainable { color: var(--fair); }
td.max_iter, td.stalled, td.non_finite { color: var(--bad); }
figure { margin: 1.2rem 0; }
figure img { height: auto; max-width: 100%; }
figcaption, footer { color: var(--soft); font-size: .88rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
.note { color: var(--soft); font-size: .88rem; }
.wide.long { max-height: 34rem; overflow-y: auto; }
.wide.long th { background: var(--paper); position: sticky; top: 0; }
tr:has(td.sentence) td { vertical-align: top; }
th.sentence, td.sentence { max-width: 30rem; min-width: min(14rem, 36vw); overflow-wrap: anywhere; text-align: left;
  white-space: normal; }
@media (max-width: 40rem) { th.sentence, td.sentence { min-width: 25vw; }
  table:has(.sentence) :is(th, td) { padding-left: 0; padding-right: .6rem; }
  table:has(.sentence) td:first-child:not(.sentence) { min-width: 4rem; overflow-wrap: anywhere;
    white-space: normal; } }
table.words { white-space: normal; }
table.words td:first-child { white-space: nowrap; }
table.words th, table.words td { overflow-wrap: anywhere; text-align: left; vertical-align: top; }
footer { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: .8rem; }
""".strip()

GRAPH_STYLE = """
body { max-width: 78rem; }
p, h1 { max-width: 54rem; }
.graphs { display: grid; gap: 1.2rem 1.6rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.graph { margin: .4rem 0 0; max-width: 44rem; min-width: 0; }
.graph.whole { grid-column: 1 / -1; max-width: none; }
.graph figcaption { color: var(--ink); font-weight: 600; margin-bottom: .2rem; }
.keys { display: flex; flex-wrap: wrap; gap: .1rem .35rem; margin: .7rem 0; }
.key { align-items: baseline; background: none; border: 0; border-radius: .3rem; color: var(--ink);
  display: inline-flex; font: inherit; font-size: .88rem; gap: .4rem; padding: .12rem .4rem; text-align: left; }
button.key { cursor: pointer; }
button.key:hover { background: var(--line); }
button.key[aria-pressed=false] { opacity: .4; text-decoration: line-through; }
.sign { color: var(--light); }
.stroke { align-self: center; border-top: 3px solid var(--light); flex: none; width: 1.2rem; }
.stroke.dashed { border-top-style: dashed; border-top-width: 2px; }
.stroke.thin { border-top-width: 1px; }
@media (prefers-color-scheme: dark) { .sign { color: var(--dark); } .stroke { border-color: var(--dark); } }
@media (max-width: 40rem) { body { padding: 1.5rem .9rem 3rem; } h1 { font-size: 1.4rem; } }
""".strip()
"""What a page with interactive figures needs beyond `STYLE`."""
