"""The statements of a recipe's export to SQL, built with sqlglot.

The SELECT has three levels: the columns that are read, as numbers or text, missing ones as NULL; the
features, with what was learned joined as tables; their values, infinite ones as NULL. Between them columns
are named by position, so that names of the user stand at the boundaries only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from scopefe.components import Array, Lookup, Operator
from scopefe.data.datetimes import TimePart
from scopefe.data.table import Holds
from scopefe.data.values import TRUTH, is_large
from scopefe.errors import ComponentError, RecipeError, first_line
from scopefe.export.forms import Form, forms
from scopefe.recipe.inputs import Input
from scopefe.recipe.recipe import Recipe

DOUBLE, SINGLE, TEXT = "double", "float", "text"
LARGEST, BEYOND_SINGLE, ZERO_SINGLE = 1.7976931348623157e308, 3.4028235677973366e38, 7.006492321624085e-46
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-150, 1e150
WITH_SINGLE, WITH_ASOF, WITH_INTERVALS = ("duckdb", "postgres"), ("duckdb",), ("duckdb", "postgres")
REFUSES_OVERFLOW = ("postgres", "bigquery")
ROWS_PER_INSERT, WIDTH = 1000, 110
SECONDS, WEEK, THURSDAY = 86_400.0, 7, 3
WITH_TRY = ("duckdb", "snowflake", "bigquery")
WITHOUT_CASE = ("duckdb", "bigquery")
LONGEST_NAME = {"postgres": 63, "bigquery": 300, "snowflake": 255}


@dataclass(frozen=True)
class Column:
    """A column that is read: what the recipe says of it, what the query calls it, what it holds.

    `integers` is whether its texts are those of integers, of which some are too large for a double.
    `single` is whether it is rounded to single precision, of which some databases have none; `bounded`,
    whether very large numbers are read as infinite, and very small ones as 0: no product ends the query.
    """

    input: Input
    name: str
    holds: Holds
    single: bool
    bounded: bool
    integers: bool

    @property
    def type(self) -> str:
        """Its type in the query."""
        return DOUBLE if self.holds == "numbers" else TEXT

    @property
    def value(self) -> exp.Column:
        """The value on the level of features."""
        return exp.column(self.name, table="i")

    @property
    def nullable(self) -> bool:
        """Whether a missing value is no category."""
        return self.input.missing_as is None


@dataclass(frozen=True)
class Table:
    """A table of what was learned: types by column, and rows of literals."""

    name: str
    columns: dict[str, str]
    rows: Sequence[tuple[exp.Expr, ...]]


@dataclass(frozen=True)
class Value:
    """A feature on its level: an expression, and the table that is joined for it, how, and on a condition."""

    expression: exp.Expr
    table: Table | None = None
    join: str = "left"
    on: exp.Expr | None = None


def statements(
    recipe: Recipe, dialect: str, table: str, keep: Sequence[str], *, create_tables: bool
) -> Iterator[str]:
    """Yield the statements of an export; the last one is the SELECT."""
    given, source = forms(recipe, "sql"), _source(table, dialect)
    _check_names(recipe, keep, dialect)
    prefix = "scopefe"
    while source.name.lower().startswith(prefix):
        prefix += "_"
    columns = _columns(recipe, given, dialect)
    lenient = [i.column for i in recipe.inputs if i.time_part is not None and i.time_part.lenient]
    if lenient and dialect not in WITH_TRY:
        raise RecipeError(
            f"column {lenient[0]!r} holds texts that are no times, at which {dialect} ends a query: "
            f"{', '.join(WITH_TRY)} do not"
        )
    lasting = [i.column for i in recipe.inputs if i.time_part is not None and i.time_part.part == "duration"]
    if lasting and dialect not in WITH_INTERVALS:
        raise RecipeError(f"{dialect} cannot read the duration {lasting[0]!r}: duckdb and postgres can")
    values = [
        _looked_up(f"{prefix}_{number}", form, [columns[name] for name in feature.inputs], dialect)
        if isinstance(form, Lookup)
        else Value(_computed(feature.operator, form, [columns[name] for name in feature.inputs]))
        for number, (feature, form) in enumerate(zip(recipe.features, given, strict=True), 1)
    ]
    tables = [v.table for v in values if v.table]
    levels = {} if create_tables else {t.name: _query_of(t) for t in tables}
    levels[f"{prefix}_inputs"] = _inputs(source, list(columns.values()), keep, recipe.missing or ())
    levels[f"{prefix}_features"] = _features(values, f"{prefix}_inputs", len(keep))
    select = _result(recipe, columns, values, keep, dialect).from_(f"{prefix}_features")
    for name, query in levels.items():
        select = select.with_(name, query, copy=False)
    for statement in (*(s for t in tables if create_tables for s in _statements(t)), select):
        yield statement.sql(dialect=dialect, pretty=True, max_text_width=WIDTH)


def _check_names(recipe: Recipe, keep: Sequence[str], dialect: str) -> None:
    """Check that the dialect can name the columns that are read, and tells them from the others."""
    read = dict.fromkeys([*(i.column for i in recipe.inputs), *keep])
    for name in read:
        if not name or "\x00" in name:
            raise RecipeError(f"SQL has no name for the column {name!r}: rename it")
    if dialect not in WITHOUT_CASE:
        return
    folded = {name.lower(): name for name in read}
    for name in [*read, *(o.read.column for o in recipe.originals)]:
        if folded.get(name.lower(), name) != name:
            raise RecipeError(
                f"to {dialect}, the columns {folded[name.lower()]!r} and {name!r} are one: rename one of them"
            )


def _source(table: str, dialect: str) -> exp.Table:
    try:
        parsed = exp.to_table(table, dialect=dialect)
    except SqlglotError:
        parsed = exp.Table()
    if not isinstance(parsed, exp.Table) or not parsed.name:
        raise RecipeError(f"{table!r} is no name of a table in {dialect}")
    return parsed


def _columns(recipe: Recipe, given: Sequence[Form], dialect: str) -> dict[str, Column]:
    """Return the columns that are read; what categories are is told by the labels that were learned."""
    labels: dict[str, set[str | float]] = {}
    for feature, form in zip(recipe.features, given, strict=True):
        for place, keys in form.keys.items() if isinstance(form, Lookup) else ():
            labels.setdefault(feature.inputs[place], set()).update(keys.tolist())

    def holds(i: Input) -> Holds:
        if i.kind != "categorical":
            return "numbers"
        known = labels.get(i.name, set()) - {i.missing_as}
        if any(isinstance(label, str) for label in known):
            return "truth values" if known <= {"True", "False"} else "text"
        return "numbers" if known else i.holds or "text"

    def integers(i: Input) -> bool:
        known = labels.get(i.name, set()) - {i.missing_as}
        return any(map(is_large, known)) and all(isinstance(v, float) or is_large(v) for v in known)

    singles, bounded = dialect in WITH_SINGLE, dialect in REFUSES_OVERFLOW
    return {
        i.name: Column(i, f"x{number}", holds(i), i.single and singles, bounded, integers(i))
        for number, i in enumerate(recipe.inputs, 1)
    }


def _computed(operator: Operator, template: str, inputs: Sequence[Column]) -> exp.Expr:
    """Return an operator's own expression of its inputs and parameters."""
    places = {f"input{number}": column.value for number, column in enumerate(inputs)}
    parameters = {key: exp.convert(value) for key, value in operator.values.items()}
    filled = template.format(*(f":{place}" for place in places), **{key: f":{key}" for key in parameters})
    try:
        parsed = sqlglot.parse_one(filled)
    except SqlglotError as error:
        reason = first_line(error)
        raise ComponentError(f"the SQL of operator {operator.name!r} cannot be read: {reason}") from None
    return exp.replace_placeholders(parsed, **places, **parameters)


def _looked_up(name: str, lookup: Lookup, inputs: Sequence[Column], dialect: str) -> Value:
    """Return the value that is found in a table of this name by keys, and by the step a number is on."""
    keys = {f"key{place + 1}": (inputs[place], labels) for place, labels in lookup.keys.items()}
    conditions = [_same(column, exp.column(key, table=name)) for key, (column, _) in keys.items()]
    equal = all(isinstance(c, exp.EQ) for c in conditions)
    asof = lookup.lower is not None and equal and dialect in WITH_ASOF
    numbers, on_step, found = _stepped(name, lookup, inputs, asof=asof)
    types = {key: column.type for key, (column, _) in keys.items()} | dict.fromkeys(numbers, DOUBLE)
    cells = [[_label(label, column) for label in labels.tolist()] for column, labels in keys.values()]
    cells += [[_number(number) for number in values.tolist()] for values in numbers.values()]
    rows = [row for row in zip(*cells, strict=True) if None not in row]
    if not math.isnan(lookup.default):
        found = exp.Coalesce(this=found, expressions=[_number(lookup.default)])
    read = [inputs[place] for place in (*lookup.keys, *(lookup.lower or ())[:1])]
    present = [column.value.is_(exp.null()).not_() for column in read if column.nullable]
    if present and (lookup.lower is not None or not math.isnan(lookup.default)):
        found = exp.case().when(exp.and_(*present), found)
    table = Table(name, types, rows)
    return Value(found, table, "asof left" if asof else "left", exp.and_(*conditions, *on_step))


def _same(column: Column, key: exp.Column) -> exp.Expr:
    """Return the condition that a row has a key; that of a missing number may be one."""
    if column.nullable or column.type == TEXT:
        return column.value.eq(key)
    return exp.NullSafeEQ(this=column.value, expression=key)


def _stepped(
    name: str, lookup: Lookup, inputs: Sequence[Column], *, asof: bool
) -> tuple[dict[str, Array], list[exp.Expr], exp.Expr]:
    """Return a table's columns of numbers, the conditions that a row is on its step, and the value there.

    A join `asof` takes the last of the rows that would do.
    """
    value, low, high, above = (exp.column(c, table=name) for c in ("value", "low", "high", "above"))
    columns = {"value": np.where(np.isfinite(lookup.values), lookup.values, np.nan)}
    if lookup.lower is None:
        return columns, [], value
    place, columns["low"] = lookup.lower
    number = inputs[place].value
    conditions: list[exp.Expr] = [number >= low]
    if not asof:
        columns["high"] = _next_bounds(lookup)
        conditions.append((number < high).or_(high.is_(exp.null())))
    if lookup.between is None:
        return columns, conditions, value
    columns["above"] = lookup.between
    return columns, conditions, exp.case().when(number.eq(low), value).else_(above)


def _next_bounds(lookup: Lookup) -> Array:
    """Return where each step ends: at the next one of the same keys, NaN if there is none."""
    assert lookup.lower is not None
    bounds = np.append(lookup.lower[1][1:], np.nan)
    for keys in lookup.keys.values():
        bounds[:-1][keys[1:] != keys[:-1]] = np.nan
    return bounds


def _label(label: str | float, column: Column) -> exp.Expr | None:
    """Return a key as a literal, None if the column cannot hold it; where numbers do, it may be NULL."""
    if column.type == TEXT:
        if column.integers and isinstance(label, float):
            label = str(int(label))
        return exp.Literal.string(label) if isinstance(label, str) else None
    return _number(math.nan if isinstance(label, str) else label)


def _number(value: float) -> exp.Expr:
    """Return a double as a literal that no database reads as a decimal."""
    if math.isnan(value):
        return exp.cast(exp.null(), DOUBLE)
    if math.isinf(value):
        return exp.cast(exp.Literal.string("inf" if value > 0 else "-inf"), DOUBLE)
    digits = repr(abs(float(value))).removesuffix(".0")
    literal = exp.Literal.number(digits if "e" in digits else f"{digits}e0")
    return exp.Neg(this=literal) if value < 0 else literal


def _query_of(table: Table) -> exp.Select:
    """Return a table as a query."""
    if not table.rows:
        nothing = (exp.cast(exp.null(), kind).as_(name) for name, kind in table.columns.items())
        return exp.select(*nothing).limit(0)
    typed = (exp.cast(exp.column(name), kind).as_(name) for name, kind in table.columns.items())
    return exp.select(*typed).from_(exp.values(table.rows, "v", list(table.columns)), copy=False)


def _statements(table: Table) -> Iterator[exp.Expr]:
    """Yield the statements that make a table."""
    name = exp.to_table(table.name)
    columns = [
        exp.ColumnDef(this=exp.to_identifier(column), kind=exp.DataType.build(kind))
        for column, kind in table.columns.items()
    ]
    yield exp.Create(this=exp.Schema(this=name, expressions=columns), kind="TABLE")
    for start in range(0, len(table.rows), ROWS_PER_INSERT):
        yield exp.insert(exp.values(table.rows[start : start + ROWS_PER_INSERT]), name, copy=False)


def _inputs(
    source: exp.Table, columns: Sequence[Column], keep: Sequence[str], missing: Sequence[str]
) -> exp.Select:
    """Return the first level: what is kept, and the columns that are read."""
    kept = [_quoted(name).as_(f"keep{number}") for number, name in enumerate(keep, 1)]
    return exp.select(*kept, *(_read(c, missing).as_(c.name) for c in columns)).from_(source)


def _read(column: Column, missing: Sequence[str]) -> exp.Expr:
    """Return a column's value: NULL for NaN and missing texts, single where the recipe computes in it."""
    raw: exp.Expr = _quoted(column.input.column)
    missing_as = column.input.missing_as
    if column.input.time_part is not None:
        raw = _part(raw, column.input.time_part)
    if column.type == TEXT:
        text: exp.Expr = exp.cast(raw, TEXT)
        if column.holds == "truth values":
            truth = exp.case(exp.Lower(this=text)).else_(text)
            for given, label in TRUTH.items():
                truth = truth.when(exp.Literal.string(given), exp.Literal.string(label))
            text = truth
        for none in missing:
            text = exp.Nullif(this=text, expression=exp.Literal.string(none))
        if missing_as is None:
            return text
        return exp.Coalesce(this=text, expressions=[exp.Literal.string(missing_as)])
    number, infinite = exp.cast(raw, DOUBLE), _number(math.inf)
    if column.single:
        largest, known = BEYOND_SINGLE, _single(number)
    elif column.bounded:
        largest, known = LARGEST_FACTOR, _within(number, SMALLEST_FACTOR, LARGEST_FACTOR, number)
    else:
        return exp.case().when(number <= infinite, number)
    return known.when(number <= _number(-largest), _number(-math.inf)).when(number <= infinite, infinite)


def _part(raw: exp.Expr, time_part: TimePart) -> exp.Expr:
    """Return a part of a datetime or duration; weekdays have other numbers elsewhere: days are counted."""

    def cast(kind: str) -> exp.Expr:
        return (
            exp.TryCast(this=raw, to=exp.DataType.build(kind)) if time_part.lenient else exp.cast(raw, kind)
        )

    if time_part.part == "duration":
        return exp.Extract(this=exp.var("EPOCH"), expression=cast("interval")) / _number(SECONDS)
    instant: exp.Expr = cast("timestamp")
    if time_part.zone is not None:
        zone = exp.Literal.string("UTC" if time_part.part == "elapsed" else time_part.zone)
        instant = exp.AtTimeZone(this=cast("timestamptz"), zone=zone)
    if time_part.part == "elapsed":
        return exp.cast(_since_1970(instant, "timestamp", "MICROSECOND"), DOUBLE) / _number(SECONDS * 1e6)
    if time_part.part == "weekday":
        days = _since_1970(exp.cast(instant, "date"), "date", "DAY")
        return ((days + THURSDAY) % WEEK + WEEK) % WEEK
    return exp.Extract(this=exp.var(time_part.part.upper()), expression=instant)


def _since_1970(value: exp.Expr, kind: str, unit: str) -> exp.Expr:
    start = exp.cast(exp.Literal.string("1970-01-01"), kind)
    return exp.DateDiff(this=value, expression=start, unit=exp.var(unit))


def _single(number: exp.Expr) -> exp.Case:
    """Return a number in single precision, NULL where that is infinite."""
    rounded = exp.cast(exp.cast(number, SINGLE), DOUBLE)
    return _within(number, ZERO_SINGLE, BEYOND_SINGLE, rounded)


def _within(number: exp.Expr, smallest: float, largest: float, value: exp.Expr) -> exp.Case:
    """Return a value where the size of a number is below the largest, 0 where it is at most the smallest."""
    size = exp.Abs(this=number)
    return exp.case().when(size <= _number(smallest), _number(0.0)).when(size < _number(largest), value)


def _quoted(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _features(values: Sequence[Value], inputs: str, kept: int) -> exp.Select:
    """Return the second level: what is kept, and the features."""
    same = [exp.column(f"keep{number}", table="i") for number in range(1, kept + 1)]
    named = [v.expression.as_(f"f{number}") for number, v in enumerate(values, 1)]
    query = exp.select(*same, *named).from_(exp.to_table(inputs).as_("i"))
    for value in values:
        if value.table is not None:
            query = query.join(exp.to_table(value.table.name), on=value.on, join_type=value.join, copy=False)
    return query


def _result(
    recipe: Recipe, columns: Mapping[str, Column], values: Sequence[Value], keep: Sequence[str], dialect: str
) -> exp.Select:
    """Return the third level: what is kept, and the values of the features, under their names."""
    for name in {f.name for f in recipe.features} & set(keep):
        raise RecipeError(f"the column to keep {name!r} has the name of a feature")
    kept = [exp.column(f"keep{number}") for number in range(1, len(keep) + 1)]
    found: list[exp.Expr] = []
    for number, (feature, value) in enumerate(zip(recipe.features, values, strict=True), 1):
        column = exp.column(f"f{number}")
        single = all(columns[name].single for name in feature.inputs)
        found.append(column if value.table else _finite(column, single=single))
    names = [*keep, *_names([f.name for f in recipe.features], {name.lower() for name in keep}, dialect)]
    return exp.select(
        *(v.as_(exp.to_identifier(n, quoted=True)) for v, n in zip([*kept, *found], names, strict=True))
    )


def _finite(value: exp.Expr, *, single: bool) -> exp.Expr:
    """Return NULL for what is not finite; what is computed of single precision is rounded to it."""
    return _single(value) if single else exp.case().when(exp.Abs(this=value) <= _number(LARGEST), value)


def _names(names: Sequence[str], taken: set[str], dialect: str) -> list[str]:
    """Return the names of new columns, changed where the dialect would not take them as they are."""
    found = []
    for name in names:
        if dialect == "bigquery":
            name = re.sub(r"\W", "_", name, flags=re.ASCII)
        cut, number = _cut(name, dialect), 2
        while cut.lower() in taken:
            cut, number = _cut(name, dialect, f"_{number}"), number + 1
        taken = taken | {cut.lower()}
        found.append(cut)
    return found


def _cut(name: str, dialect: str, suffix: str = "") -> str:
    room = LONGEST_NAME.get(dialect)
    return name.encode()[: room and room - len(suffix)].decode(errors="ignore") + suffix
