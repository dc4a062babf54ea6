"""The constraints of one part as rows `B F + b <= 0` of unit length, an equality as two."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

from ferero.preference._consistency.parts import TOLERANCE
from ferero.preference._expression import Constraint, entries

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Array", "Matrix", "System", "is_independent", "read_system"]

Array: TypeAlias = npt.NDArray[np.float64]
Matrix: TypeAlias = "csr_array[np.float64, tuple[int, int]]"


@dataclass(frozen=True, eq=False)
class System:
    """Rows `B F + b <= 0`.

    Attributes:
        rows: B (k, m), without its zeros.
        offsets: b (k,).
        origins: The number of the constraint that each row comes from, (k,).
        equalities: The numbers of those that are equations. Each has two rows, the second minus the first.
    """

    rows: Matrix
    offsets: Array
    origins: npt.NDArray[np.int64]
    equalities: frozenset[int]

    @property
    def is_equality(self) -> npt.NDArray[np.bool_]:
        """Rows (k,) that are one side of an equation."""
        return np.isin(self.origins, list(self.equalities))

    def only(self, keep: Collection[int]) -> System:
        """The rows of some of the constraints."""
        mask = np.isin(self.origins, list(keep))
        return System(self.rows[mask], self.offsets[mask], self.origins[mask], self.equalities)

    def scales(self) -> Array:
        """The size of the losses that each row (k,) speaks of: the largest offset among rows linked by losses.

        Losses that no row links may have any units, so an offset of 1e9 for one does not hide 1e-3 for another.
        """
        k, m = self.rows.shape
        row, loss = self.rows.nonzero()
        links = scipy.sparse.coo_array((np.ones(len(row)), (row, k + loss)), shape=(k + m, k + m))
        _, group = scipy.sparse.csgraph.connected_components(links, directed=False)
        largest = np.zeros(group.max() + 1)
        np.maximum.at(largest, group[:k], np.abs(self.offsets))
        return np.where(largest > 0, largest, 1.0)[group[:k]]


def read_system(constraints: Sequence[Constraint], numbers: Sequence[int]) -> System:
    """The rows of the constraints with these numbers, over the losses that they name."""
    forms = [constraints[i].form for i in numbers]
    names = list(dict.fromkeys(name for form in forms for name, _ in form.terms))
    (row, column), coefficients = entries(names, forms)
    values = np.array(coefficients)
    largest, squares = np.zeros(len(forms)), np.zeros(len(forms))
    np.maximum.at(largest, row, np.abs(values))  # first, so that squares neither overflow nor vanish
    values = values / largest[row]
    np.add.at(squares, row, values**2)
    lengths = np.sqrt(squares)
    rows = scipy.sparse.csr_array((values / lengths[row], (row, column)), shape=(len(forms), len(names)))
    offsets = np.array([form.constant for form in forms], dtype=np.float64) / largest / lengths
    equal = np.flatnonzero([constraints[i].is_equality for i in numbers])
    origins = np.array(numbers, dtype=np.int64)
    return System(
        scipy.sparse.vstack([rows, -rows[equal]], format="csr"),
        np.concatenate([offsets, -offsets[equal]]),
        np.concatenate([origins, origins[equal]]),
        frozenset(origins[equal].tolist()),
    )


def is_independent(rows: Matrix) -> bool:
    """Whether rows (k, m) of unit length are linearly independent: then none contradicts or implies another."""
    k, m = rows.shape
    if k == 0 or k > m:
        return k == 0
    singular = np.linalg.svd(rows.toarray(), compute_uv=False)
    return bool(singular[-1] > TOLERANCE * singular[0])
