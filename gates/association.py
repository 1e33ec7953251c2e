"""Association of features of mixed kinds (paper, Section "Pair-Space Scope Control").

Numeric pairs: absolute Pearson correlation. Categorical pairs: bias-corrected Cramér's V. Mixed pairs:
eta-squared. Ordinal features count as numeric. Missing values are left out pair by pair, infinite values
count as missing, undefined statistics are 0.

Numbers are read a block of rows at a time: no second copy of the columns is made. Sums are added up in one
order, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, pairwise
from threading import Lock

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from scopefe import Keys, Table
from scopefe.components import Array

MIN_ROWS = 3
BLOCK = 4096
CELLS = 2**24
"""Most group sums that are kept at a time."""
KEPT = 1e-3
"""Where the rows of a pair hold less than this share of a column's squares, too many digits cancel."""

_limiting = Lock()


def association(table: Table) -> Array:
    """Return the similarity matrix of a table's features.

    Returns
    -------
    ndarray
        float64, shape (d, d), symmetric, in [0, 1], with a diagonal of 1.
    """
    categorical = np.array(table.categorical(), dtype=np.int64)
    numeric = np.setdiff1d(np.arange(len(table)), categorical)
    columns = Columns.of(table, numeric)
    keys = [table.take(slice(None)).keys(int(i)) for i in categorical]
    result = np.eye(len(table))
    with _one_thread():
        result[np.ix_(numeric, numeric)] = np.abs(correlations(columns))
        shares = eta_squared(keys, columns)
    result[np.ix_(categorical, numeric)] = shares
    result[np.ix_(numeric, categorical)] = shares.T
    result[np.ix_(categorical, categorical)] = cramers_v(keys)
    result = np.clip(result, 0, 1)
    np.fill_diagonal(result, 1)
    return result


@contextmanager
def _one_thread() -> Iterator[None]:
    """Products of matrices add up in an order that depends on the number of threads: use one."""
    with _limiting, threadpool_limits(1, user_api="blas"):
        yield


@dataclass(frozen=True, eq=False)
class Columns:
    """The numeric columns of a table, and how they are standardised.

    Parameters
    ----------
    table
        Where they are.
    index
        Their positions in it.
    exponents
        The power of two that very large and very small columns are divided by; 0 for others.
    centres, scales
        Mean and standard deviation; the scale of a constant column is 0.
    complete
        Whether every value is finite.
    """

    table: Table
    index: Array
    exponents: Array
    centres: Array
    scales: Array
    complete: Array

    @classmethod
    def of(cls, table: Table, index: Array) -> Columns:
        """Go through the columns, one by one."""
        exponents, centres, scales = np.zeros((3, len(index)))
        columns = cls(table, index, exponents, centres, scales, np.ones(len(index), dtype=bool))
        for j in range(len(columns)):
            x = columns.raw(j)
            present = np.isfinite(x)
            columns.complete[j] = present.all()
            if not columns.complete[j]:
                x = x[present]
            if not len(x) or x.min() == x.max():
                continue
            exponent = int(np.frexp(max(-x.min(), x.max()))[1])
            if abs(exponent) > 300:
                columns.exponents[j], x = exponent, np.ldexp(x, -exponent)
            columns.centres[j] = x.mean()
            x = x - columns.centres[j]
            columns.scales[j] = np.sqrt(np.square(x).mean())
        return columns

    def __len__(self) -> int:
        return len(self.index)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.table.rows

    def only(self, part: slice) -> Columns:
        """Return some of the columns."""
        return Columns(
            self.table,
            self.index[part],
            self.exponents[part],
            self.centres[part],
            self.scales[part],
            self.complete[part],
        )

    def raw(self, j: int, rows: slice = slice(None)) -> Array:
        """float64, shape (rows,): the values of a column, which the table need not keep."""
        values = self.table.take(rows).numeric(int(self.index[j])).astype(np.float64, copy=False)
        exponent = int(self.exponents[j])
        return np.ldexp(values, -exponent) if exponent else values

    def blocks(self) -> Iterator[tuple[slice, Array, Array]]:
        """Yield rows; standardised values, (columns, rows), 0 where missing; and where these are known."""
        factors = np.divide(1, self.scales, out=np.zeros(len(self)), where=self.scales > 0)
        for start in range(0, self.rows, BLOCK):
            rows = slice(start, min(start + BLOCK, self.rows))
            part = self.table.take(rows)
            z = np.empty((len(self), part.rows))
            for j, i in enumerate(self.index):
                z[j] = part.numeric(int(i))
            for j in np.flatnonzero(self.exponents).tolist():
                z[j] = np.ldexp(z[j], -int(self.exponents[j]))
            present = np.ones(z.shape, dtype=bool)
            for j in np.flatnonzero(~self.complete).tolist():
                present[j] = np.isfinite(z[j])
                z[j, ~present[j]] = self.centres[j]
            z -= self.centres[:, None]
            z *= factors[:, None]
            yield rows, z, present


def correlations(columns: Columns) -> Array:
    """Return pairwise-complete Pearson correlations, shape (columns, columns)."""
    full, gaps = np.flatnonzero(columns.complete), np.flatnonzero(~columns.complete)
    products, n, sums, squares = np.zeros((4, len(columns), len(columns)))
    for _, z, present in columns.blocks():
        products += z @ z.T
        others = present[gaps].T.astype(np.float64)
        for total, values in ((n, present), (sums, z), (squares, np.square(z))):
            total[:, full] += values.sum(axis=1)[:, None]
            if len(gaps):
                total[:, gaps] += values @ others
    with np.errstate(all="ignore"):
        covariance = products - sums * sums.T / n
        variance = squares - np.square(sums) / n
        result: Array = covariance / np.sqrt(variance * variance.T)
    varies = columns.scales > 0
    defined = (n >= MIN_ROWS) & varies[:, None] & varies[None, :]
    result[~defined | ~np.isfinite(result)] = 0
    cancelled = defined & ~(variance >= KEPT * squares)
    for i, j in np.argwhere(np.triu(cancelled | cancelled.T, 1)):
        result[i, j] = result[j, i] = _correlation(columns.raw(i), columns.raw(j))
    return result


def _correlation(a: Array, b: Array) -> float:
    rows = np.isfinite(a) & np.isfinite(b)
    a, b = _centred(a[rows]), _centred(b[rows])
    size = np.sqrt(np.square(a).sum() * np.square(b).sum())
    return float((a * b).sum() / size) if size else 0.0


def _centred(x: Array) -> Array:
    """Centre values and bring the largest to about 1; equal ones are 0."""
    if not len(x) or x.min() == x.max():
        return np.zeros(len(x))
    x = x - x.mean()
    x = x / np.abs(x).max()
    centred: Array = x - x.mean()
    return centred


def eta_squared(keys: Sequence[Keys], columns: Columns) -> Array:
    """Return the share of each column's variance that each key's groups explain, shape (keys, columns)."""
    result = np.zeros((len(keys), len(columns)))
    for some in _batches([k.size for k in keys], CELLS // max(len(columns), 1)):
        labels = sum(k.size for k in keys[some])
        width = max(1, CELLS // max(labels, 1))
        for start in range(0, len(columns), width):
            part = slice(start, start + width)
            result[some, part] = _eta_squared(keys[some], columns.only(part))
    return result


def _batches(sizes: Sequence[int], most: int) -> Iterator[slice]:
    """Yield runs of positions whose sizes add up to `most` at most; a larger one stands alone."""
    start = total = 0
    for position, size in enumerate(sizes):
        if position > start and total + size > most:
            yield slice(start, position)
            start, total = position, 0
        total += size
    if len(sizes):
        yield slice(start, len(sizes))


def _eta_squared(keys: Sequence[Keys], columns: Columns) -> Array:
    full, gaps = np.flatnonzero(columns.complete), np.flatnonzero(~columns.complete)
    starts = np.concatenate([[0], np.cumsum([k.size for k in keys])])
    sums = np.zeros((starts[-1], len(columns)))
    sizes, counts = np.zeros(starts[-1]), np.zeros((starts[-1], len(gaps)))
    squares = np.zeros((len(keys), len(columns)))
    for rows, z, present in columns.blocks():
        known = np.array([~k.missing[rows] for k in keys])
        groups = _membership(keys, starts, rows, known)
        sums += groups @ z.T
        sizes += groups.sum(axis=1)
        if len(gaps):
            counts += groups @ present[gaps].T.astype(np.float64)
        squares += known @ np.square(z).T
    n = np.empty_like(sums)
    n[:, full], n[:, gaps] = sizes[:, None], counts
    between = np.divide(np.square(sums), n, out=np.zeros_like(sums), where=n > 0)
    within = [slice(*ends) for ends in pairwise(starts)]
    between, sums, n = (np.array([v[g].sum(axis=0) for g in within]) for v in (between, sums, n))
    with np.errstate(all="ignore"):
        lost = np.square(sums) / n
        variance = squares - lost
        result: Array = (between - lost) / variance
    defined = (n >= MIN_ROWS) & (columns.scales > 0)
    result[~defined | ~np.isfinite(result)] = 0
    for position, j in np.argwhere(defined & ~(variance >= KEPT * squares)):
        result[position, j] = _explained(keys[position], columns.raw(j))
    return result


def _membership(keys: Sequence[Keys], starts: Array, rows: slice, known: Array) -> csr_array:
    """Shape (groups of all keys, rows): 1 where a row is in the group."""
    numbers = np.stack([k.take(rows).codes + first for k, first in zip(keys, starts, strict=False)])[known]
    row = np.nonzero(known)[1]
    return csr_array((np.ones(len(row)), (numbers, row)), shape=(starts[-1], known.shape[1]))


def _explained(keys: Keys, x: Array) -> float:
    rows = np.isfinite(x) & ~keys.missing
    x, codes = _centred(x[rows]), keys.codes[rows]
    total = np.square(x).sum()
    if not total:
        return 0.0
    counts, sums = np.bincount(codes), np.bincount(codes, weights=x)
    return float((np.square(sums[counts > 0]) / counts[counts > 0]).sum() / total)


def cramers_v(keys: Sequence[Keys]) -> Array:
    """Return the bias-corrected Cramér's V of each pair, shape (keys, keys), from the observed cells only."""
    result = np.eye(len(keys))
    codes = [k.codes + 1 for k in keys]  # 0 is missing
    for i, j in combinations(range(len(keys)), 2):
        width = keys[j].size + 1
        cells = codes[i] * width + codes[j]
        if (keys[i].size + 1) * width <= 4 * len(cells):
            counts = np.bincount(cells)
            where = np.flatnonzero(counts)
            counts = counts[where]
        else:
            where, counts = np.unique(cells, return_counts=True)
        left, right = where // width, where % width
        known = (left > 0) & (right > 0)
        result[i, j] = result[j, i] = _cramers_v(left[known], right[known], counts[known])
    return result


def _cramers_v(left: Array, right: Array, counts: Array) -> float:
    """Take the observed cells of a contingency table: row, column and count."""
    n = int(counts.sum())
    if n < 2:
        return 0.0
    rows, columns = np.bincount(left, weights=counts), np.bincount(right, weights=counts)
    r, k = np.count_nonzero(rows), np.count_nonzero(columns)
    chi2 = float((np.square(counts) / (rows[left] * columns[right])).sum()) - 1
    phi2 = max(0.0, chi2 - (k - 1) * (r - 1) / (n - 1))
    smaller = min(k - (k - 1) ** 2 / (n - 1), r - (r - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(phi2 / smaller)) if smaller > 0 else 0.0
