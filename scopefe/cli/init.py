"""``scopefe init``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from scopefe.cli.options import OutputFile, verbosity
from scopefe.cli.output import Settings, one_line, pass_settings, whole_file
from scopefe.data.dataset import Dataset, load_dataset
from scopefe.data.kinds import is_number
from scopefe.data.source import read
from scopefe.data.splits import column
from scopefe.errors import DataError, SpecError
from scopefe.spec.loader import load_spec
from scopefe.spec.models import SUFFIXES, ColumnSplit, Data, FileSource, file_type

SHOWN, NAMED = 40, 5
ROWS_PER_VALUE = 3  # fewer, on average, and a column tells others by chance
MANY_ROWS = 20_000
ROLES = {
    "train": ("train", "training"),
    "selection": ("selection", "val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
RESERVED = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
TIME_NAME = re.compile(r"(^|[^a-z])(date|datetime|time|timestamp|day)([^a-z]|$)", re.IGNORECASE)

SEARCH = """\
operators:
  use: [default]   # the 23 built-in operators; `scopefe components` lists them

# How much of all that is searched: the best tenth, 500 at least, by a score that makes no candidate.
# In place of it `extends: scope-fe` takes the SCOPE-FE paper's scope and selection.
scope:
  operators: {{gate: quantised, budget: 0.1, at_least: 500, seed: 1}}

selection:
  data_blocks: {blocks}           # 1 scores on all rows; large tables: 8 or more, to score on few rows first
  min_candidates: 500      # so many go on to all rows and attribution; the gate has ranked them already
  gain: cross-fitted       # measured on all rows, fold by fold
  attribution: held-out    # ranked by what they bring on rows that no tree has seen
  keep: auto               # as many as help on rows that the search has not seen, if any; or a number

evaluation:
  seeds: 10        # models with and without the new features, on the test rows; 0 leaves it out
"""


@dataclass(frozen=True, eq=False)
class Sniffed:
    """A table, and what a spec has to say of it.

    Parameters
    ----------
    source
        The file.
    frame
        Its table.
    data
        The section of a spec that reads it.
    dataset
        What that gives: kinds, task, rows.
    """

    source: Path
    frame: pd.DataFrame
    data: Data
    dataset: Dataset


def sniff(source: Path, target: str) -> Sniffed:
    """Read a table and find its kinds, task, missing values and rows.

    Raises
    ------
    DataError
        If it cannot be read, has no such target, or nothing can be searched on it.
    """
    kind = file_type(source.name)
    if kind is None:
        raise DataError(
            f"cannot tell the format of {str(source)!r}: its name must end in {', '.join(SUFFIXES)}"
        )
    file = FileSource(type=kind, path=str(source))
    frame = read(file)
    missing = "drop" if column(frame, target, "--target").isna().any() else "error"
    content: dict[str, Any] = {"source": file, "target": {"column": target, "missing": missing}}
    roles = _role_column(frame.drop(columns=target))
    data = Data.model_validate(content | ({"split": roles} if roles else {}))
    return Sniffed(source, frame, data, load_dataset(data, frame))


def _role_column(frame: pd.DataFrame) -> ColumnSplit | None:
    """Return the split that a column of roles makes, if there is one."""
    known = {word for words in ROLES.values() for word in words}
    for name in frame.columns:
        if is_number(frame[name]) or frame[name].isna().any():
            continue
        values = [v for v in frame[name].unique() if isinstance(v, str)]
        roles = {role: [v for v in values if v.lower() in words] for role, words in ROLES.items()}
        if {v.lower() for v in values} <= known and roles["train"] and roles["selection"]:
            return ColumnSplit.model_validate({"by": "column", "column": name, **roles})
    return None


def suggest_spec(found: Sniffed, name: str, folder: Path) -> str:
    """Return the text of a commented spec.

    Parameters
    ----------
    found
        From `sniff`.
    name
        Name of the spec.
    folder
        Where the spec will be; the table is named relative to it.
    """
    rows = found.dataset.rows
    blocks = 8 if len(rows.development) >= MANY_ROWS else 1
    return "\n".join([*_head(found, name), *_data(found, folder), SEARCH.format(blocks=blocks)])


def _head(found: Sniffed, name: str) -> Iterator[str]:
    rows, columns = found.frame.shape
    yield f"# A spec for {one_line(found.source.name)}: {rows:,} rows, {columns:,} columns."
    yield "# Every key left out has a default."
    yield "# `scopefe validate` checks this file, `compile` counts what it would search, `execute` runs it."
    yield "# For completion in an editor: `scopefe schema -o scopefe.schema.json`, and as the first line here"
    yield "#   yaml-language-server: $schema=scopefe.schema.json"
    yield "version: 1"
    yield f"name: {scalar(name)}"
    yield "seed: 1"
    yield ""


def _data(found: Sniffed, folder: Path) -> Iterator[str]:
    data, labels = found.data, found.dataset.labels
    yield "data:"
    yield f"  source: {scalar(_relative(found.source, folder))}"
    yield f"  # {_target_facts(found)}"
    target = scalar(data.target.column)
    if data.target.missing == "drop":
        yield f"  target: {{column: {target}, missing: drop}}   # rows without a target are left out"
    else:
        yield f"  target: {target}"
    yield f"  task: {labels.task}   # regression, binary or multiclass"
    yield from _split(found)
    yield "  features:"
    yield "    ordinal_max_unique: 100   # a number with at most so many distinct values is ordinal"
    yield from _kinds(found)
    yield ""


def _target_facts(found: Sniffed) -> str:
    labels, name = found.dataset.labels, found.data.target.column
    missing = int(found.frame[name].isna().sum())
    told = f", missing in {missing:,} rows" if missing else ""
    if labels.task == "regression":
        low, high = labels.values.min(), labels.values.max()
        return f"The target is a number from {low:g} to {high:g}{told}."
    counts = pd.Series(labels.values.astype(int)).value_counts().sort_index()
    classes = [f"{scalar(labels.classes[i])} ({n:,})" for i, n in counts.items()]  # type: ignore[call-overload]
    more = f", and {len(classes) - 10} more" if len(classes) > 10 else ""
    positive = "; the second is the positive one" if labels.task == "binary" else ""
    return f"The target has {len(classes)} classes: {', '.join(classes[:10])}{more}{told}{positive}."


def _split(found: Sniffed) -> Iterator[str]:
    counts, split = found.dataset.rows.counts(), found.data.split
    shown = ", ".join(f"{n:,} {role}" for role, n in counts.items())
    yield f"  # Rows: {shown}. Test rows are for the evaluation only."
    if isinstance(split, ColumnSplit):
        roles = [f"{r}: [{', '.join(scalar(str(v)) for v in getattr(split, r))}]" for r in ROLES]
        yield f"  split: {{by: column, column: {scalar(split.column)}, {', '.join(roles)}}}"
        return
    times = [m.column for m in found.dataset.time_parts.values() if m.part == "elapsed"]
    times += [c for c in found.frame.columns if TIME_NAME.search(c)]
    yield "  split: {train: 0.64, selection: 0.16, test: 0.20, seed: 1}"
    yield f"  # In order of time:      split: {{by: time, column: {scalar(times[0]) if times else 'COLUMN'}}}"
    yield "  # Whole groups together: split: {by: groups, column: COLUMN}"


def _kinds(found: Sniffed) -> Iterator[str]:
    target = found.frame[found.data.target.column]
    table, frame = found.dataset.table, found.frame[target.notna()]
    width = max(len(scalar(name)) for name in table.names[:SHOWN])
    yield "    # Kinds as they were found:"
    columns = {
        name: pd.Series(table[number].numbers) if name in found.dataset.time_parts else frame[name]
        for number, name in enumerate(table.names)
    }
    for number, ((name, series), kind) in enumerate(zip(columns.items(), table.kinds, strict=True)):
        distinct, missing = series.nunique(), int(series.isna().sum())
        if number < SHOWN:
            told = f", {missing:,} missing" if missing else ""
            yield f"    #   {scalar(name):<{width}}  {kind:<11}  {distinct:,} distinct{told}"
    if len(table) > SHOWN:
        yield f"    #   and {len(table) - SHOWN:,} more"
    yield "    kinds: {}   # to fix some by hand: {COLUMN: categorical}"
    for remark, names in _remarks(columns, target.dropna()).items():
        if names:
            more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
            yield f"    # {remark}: {', '.join(names[:NAMED])}{more}"
    yield "    drop: []   # columns that are no features"


def _remarks(columns: dict[str, pd.Series[Any]], target: pd.Series[Any]) -> dict[str, list[str]]:
    """Return what stands out of the columns, with their names: they may be no features."""
    constant, unique, twins, telling = list[str](), list[str](), list[str](), list[str]()
    seen: dict[bytes, str] = {}
    classes = pd.factorize(target)[0]
    for name, series in columns.items():
        codes, values = pd.factorize(series)
        distinct = len(values) + bool((codes < 0).any())
        if distinct < 2:
            constant.append(scalar(name))
            continue
        if len(values) == len(series) and not pd.api.types.is_float_dtype(series.dtype):
            unique.append(scalar(name))
        if distinct > len(series) / ROWS_PER_VALUE:
            continue
        first = seen.setdefault(codes.tobytes(), name)
        if first != name:
            twins.append(f"{scalar(name)} = {scalar(first)}")
        pairs = len(np.unique(codes * (classes.max() + 2) + classes))
        if pairs <= len(series) / ROWS_PER_VALUE and pairs in (distinct, len(np.unique(classes))):
            telling.append(scalar(name))
    return {
        "Another value in every row, so perhaps no feature but an identifier": unique,
        "The same value in every row": constant,
        "One tells the other, so that one of them will do": twins,
        "Tells the target, or follows from it, so perhaps not known before it": telling,
    }


def scalar(text: str) -> str:
    """Return text as a YAML scalar on one line, quoted where it must be."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) and text.lower() not in RESERVED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def _relative(source: Path, folder: Path) -> str:
    """Name a file relative to a folder, but for absolute names of files elsewhere."""
    relative = os.path.relpath(source, folder)
    if source.is_absolute() and relative.startswith(".."):
        return str(source)
    return Path(relative).as_posix()


def init(source: Path, target: str, output: Path | None = None, *, force: bool = False) -> Path:
    """Write a commented spec for a table, and return its file.

    Parameters
    ----------
    source
        CSV, Parquet or Arrow/Feather file.
    target
        Column to predict.
    output
        File to write; ``NAME.yaml`` in the working folder, after the table, if not given.
    force
        Replace the file if it is there.

    Raises
    ------
    ScopefeError
        If the file is there already, or the table cannot be used.
    """
    suffix = next((s for s in sorted(SUFFIXES, key=len, reverse=True) if source.name.lower().endswith(s)), "")
    name = source.name[: len(source.name) - len(suffix)].strip() or "run"
    path = output or Path(f"{name}.yaml")
    if path.exists() and not force:
        raise SpecError(f"{str(path)!r} is there already; --force replaces it")
    text = suggest_spec(sniff(source, target), name, path.parent)
    with whole_file(path) as work:
        work.write_text(text, encoding="utf-8")
        load_spec(work)
    return path


@click.command("init")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--target", required=True, metavar="COLUMN", help="Column to predict.")
@click.option(
    "-o",
    "--output",
    type=OutputFile(".yaml", ".yml"),
    help="File to write; NAME.yaml after the table if not given.",
)
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@verbosity
@pass_settings
def command(settings: Settings, data: Path, target: str, output: Path | None, force: bool) -> None:
    """Write a commented spec for the table DATA (.csv, .parquet, .feather)."""
    path = init(data, target, output, force=force)
    settings.say(f"wrote {path}; next: scopefe compile {path}")
