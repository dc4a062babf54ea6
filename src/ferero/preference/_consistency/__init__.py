"""Whether constraints can be met at all, which of them say nothing new, and which no non-negative losses can meet.

Constraints that share no loss have nothing to do with each other, so they are judged part by part (`parts`). A part of
one loss is an interval (`bounds`). In other parts a point that proves the point is looked for first (`witness`), and
only what no point settles is put to linear programs (`farkas`). Two thousand bounds on a thousand losses need none.
"""

from ferero.preference._consistency.check import check_consistent

__all__ = ["check_consistent"]
