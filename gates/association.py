"""Association of features of mixed kinds (paper, Section "Pair-Space Scope Control").

Numeric pairs: absolute Pearson correlation. Categorical pairs: bias-corrected Cramér's V. Mixed pairs:
eta-squared. Ordinal features count as numeric. Missing values are left out pair by pair, infinite values
count as missing, undefined statistics are 0.
"""

from __future__ import annotations

import numpy as np

from scopefe import Keys, Table
from scopefe.components import Array

MIN_ROWS = 3


def association(table: Table) -> Array:
    """Return the similarity matrix of a table's features.

    Returns
    -------
    ndarray
        float64, shape (d, d), symmetric, in [0, 1], with a diagonal of 1.
    """
    d = len(table)
    categorical = np.array(table.categorical(), dtype=np.int64)
    numeric = np.setdiff1d(np.arange(d), categorical)
    result = np.eye(d)
    columns = _scaled(table, numeric)
    result[np.ix_(numeric, numeric)] = np.abs(correlations(columns))
    keys = [table.keys(int(i)) for i in categorical]
    for position, i in enumerate(categorical):
        shares = eta_squared(keys[position], columns)
        result[i, numeric] = result[numeric, i] = shares
        for other in range(position):
            j = categorical[other]
            result[i, j] = result[j, i] = cramers_v(keys[position], keys[other])
    result = np.clip(result, 0, 1)
    np.fill_diagonal(result, 1)
    return result


def _scaled(table: Table, numeric: Array) -> Array:
    """float64, shape (rows, columns): finite values over a power of two, so exact and below 1; else NaN."""
    columns = np.empty((table.rows, len(numeric)), order="F")
    for position, i in enumerate(numeric):
        values = table.numeric(int(i)).astype(np.float64)
        values[~np.isfinite(values)] = np.nan
        exponent = np.frexp(np.fmax.reduce(np.abs(values), initial=0.0))[1]
        columns[:, position] = np.ldexp(values, -exponent)
    return columns


def _centred(x: Array) -> Array:
    """Centre values and bring the largest to about 1; equal ones are 0."""
    if not len(x) or x.min() == x.max():
        return np.zeros(len(x))
    x = x - x.mean()
    x = x / np.abs(x).max()
    centred: Array = x - x.mean()
    return centred


def correlations(columns: Array) -> Array:
    """Return pairwise-complete Pearson correlations.

    Parameters
    ----------
    columns
        float64, shape (rows, d), at most 1 in size, missing is NaN.
    """
    present = ~np.isnan(columns)
    x = np.zeros_like(columns)
    varies = np.zeros(columns.shape[1], dtype=bool)
    for j in range(columns.shape[1]):
        values = _centred(columns[present[:, j], j])
        varies[j] = values.any()
        x[present[:, j], j] = values / values.std() if varies[j] else 0.0
    products = x.T @ x
    if present.all():
        n = np.full_like(products, len(x))
        sums = np.broadcast_to(x.sum(axis=0)[:, None], products.shape)
        squares = np.broadcast_to(np.diagonal(products)[:, None], products.shape)
    else:
        m = present.astype(np.float64)
        n, sums, squares = m.T @ m, x.T @ m, np.square(x).T @ m
    with np.errstate(all="ignore"):
        covariance = products - sums * sums.T / n
        variance = squares - np.square(sums) / n
        result: Array = covariance / np.sqrt(variance * variance.T)
    defined = (n >= MIN_ROWS) & varies[:, None] & varies[None, :]
    result[~defined | ~np.isfinite(result)] = 0
    # Where the rows of a pair hold little of a column's variance, digits cancelled: such pairs go one by one.
    cancelled = defined & (variance < 1e-3 * squares)
    for i, j in np.argwhere(np.triu(cancelled | cancelled.T, 1)):
        rows = present[:, i] & present[:, j]
        a, b = _centred(columns[rows, i]), _centred(columns[rows, j])
        size = np.sqrt((a @ a) * (b @ b))
        result[i, j] = result[j, i] = (a @ b) / size if size else 0.0
    return result


def eta_squared(keys: Keys, columns: Array) -> Array:
    """Return the share of each column's variance that the groups explain.

    Parameters
    ----------
    keys
        The groups, over the same rows.
    columns
        float64, shape (rows, d), at most 1 in size, missing is NaN.

    Returns
    -------
    ndarray
        float64, shape (d,).
    """
    result = np.zeros(columns.shape[1])
    grouped = ~keys.missing
    for j in range(columns.shape[1]):
        rows = grouped & ~np.isnan(columns[:, j])
        if rows.sum() < MIN_ROWS:
            continue
        x, codes = _centred(columns[rows, j]), keys.codes[rows]
        total = x @ x
        if not total:
            continue
        counts = np.bincount(codes, minlength=keys.size)
        sums = np.bincount(codes, weights=x, minlength=keys.size)
        result[j] = (np.square(sums[counts > 0]) / counts[counts > 0]).sum() / total
    return result


def cramers_v(a: Keys, b: Keys) -> float:
    """Return the bias-corrected Cramér's V, from the observed cells only."""
    rows = ~(a.missing | b.missing)
    left, right = a.codes[rows], b.codes[rows]
    n = len(left)
    if n < 2:
        return 0.0
    row_counts, column_counts = np.bincount(left, minlength=a.size), np.bincount(right, minlength=b.size)
    r, k = np.count_nonzero(row_counts), np.count_nonzero(column_counts)
    cells = left * b.size + right
    if a.size * b.size <= 4 * n:
        observed = np.bincount(cells)
        where = np.flatnonzero(observed)
        observed = observed[where]
    else:
        where, observed = np.unique(cells, return_counts=True)
    expected = row_counts[where // b.size] * column_counts[where % b.size].astype(np.float64)
    phi2 = max(0.0, float((np.square(observed) / expected).sum()) - 1 - (k - 1) * (r - 1) / (n - 1))
    smaller = min(k - (k - 1) ** 2 / (n - 1), r - (r - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(phi2 / smaller)) if smaller > 0 else 0.0
