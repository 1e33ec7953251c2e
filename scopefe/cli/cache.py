"""``scopefe cache``."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from scopefe.cli.options import as_json, verbosity
from scopefe.cli.output import Settings, pass_settings, print_json, print_table
from scopefe.run.disk import Disk, Entry, cache_folder
from scopefe.sizes import size_text

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
SHOWN = 12


def age(context: click.Context, parameter: click.Parameter, value: str | None) -> float:
    """Read a length of time, such as ``30d``, in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", "0s" if value is None else value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no age: write a number and s, m, h, d or w, such as 30d")
    return float(found[1]) * UNITS[found[2]]


def chosen(
    entries: Sequence[Entry], keys: Sequence[str] = (), dataset: str = "", older_than: float = 0.0
) -> list[Entry]:
    """Return the entries that fit all that is given.

    Parameters
    ----------
    keys
        Beginnings of keys; any of them fits.
    dataset
        Beginning of the dataset's fingerprint.
    older_than
        Least age in seconds.
    """
    latest = time.time() - older_than
    return [
        e
        for e in entries
        if e.key.startswith(tuple(keys) or "") and e.fingerprint.startswith(dataset) and e.written <= latest
    ]


def totals(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return number, bytes and seconds per sort of entry, and of all."""

    def total(what: str, some: Sequence[Entry]) -> dict[str, Any]:
        size, seconds = sum(e.size for e in some), sum(e.seconds for e in some)
        return {"what": what, "entries": len(some), "size": size, "seconds": seconds}

    sorts = sorted({e.what for e in entries})
    return [*(total(s, [e for e in entries if e.what == s]) for s in sorts), total("all", entries)]


def age_text(seconds: float) -> str:
    """Return an age in its largest whole unit."""
    fitting = [unit for unit, length in UNITS.items() if seconds >= length]
    unit = fitting[-1] if fitting else "s"
    return f"{max(seconds, 0) / UNITS[unit]:.0f} {unit}"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    left = ("key", "what", "dataset", "fingerprint")
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    return table


folder = click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="Cache to look at, instead of the default one.",
)  # fmt: skip


def _disk(named: Path | None) -> Disk:
    found = cache_folder() if named is None else named
    if found is None:
        raise click.UsageError("there is no default cache folder: give --folder")
    return Disk(found)


@click.group("cache")
@verbosity
def command() -> None:
    """See and clear what runs have stored."""


@command.command("ls")
@folder
@as_json
@verbosity
def ls(folder: Path | None, json: bool) -> None:
    """List what is stored, the latest first."""
    entries, now = _disk(folder).entries(), time.time()
    if json:
        print_json([{**asdict(e), "path": str(e.path)} for e in entries])
        return
    table = _table("key", "what", "dataset", "fingerprint", "values", "size", "age", "took")
    for e in entries:
        values = "" if e.values is None else f"{e.values:,}"
        age, took = age_text(now - e.written), f"{e.seconds:,.1f} s"
        table.add_row(
            e.key[:SHOWN], e.what, e.dataset, e.fingerprint[:SHOWN], values, size_text(e.size), age, took
        )
    print_table(table)


@command.command("du")
@folder
@as_json
@verbosity
def du(folder: Path | None, json: bool) -> None:
    """Show how much is stored, by sort."""
    disk = _disk(folder)
    sums = totals(disk.entries())
    if json:
        print_json({"folder": str(disk.folder), "totals": sums})
        return
    table = _table("what", "entries", "size", "took")
    for s in sums:
        table.add_row(s["what"], f"{s['entries']:,}", size_text(s["size"]), f"{s['seconds']:,.1f} s")
    print_table(table)


@command.command("rm")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--dataset", default="", metavar="FINGERPRINT", help="Only of this dataset.")
@click.option("--older-than", callback=age, metavar="AGE", help="Only what is older, such as 30d.")
@click.option("--all", "everything", is_flag=True, help="All there is.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@folder
@as_json
@verbosity
@pass_settings
def rm(
    settings: Settings,
    keys: tuple[str, ...],
    dataset: str,
    older_than: float,
    everything: bool,
    yes: bool,
    folder: Path | None,
    json: bool,
) -> None:
    """Remove what is stored: what fits all that is given, or --all.

    Keys and fingerprints may be cut short, as ls shows them.
    """
    narrowed = bool(keys or dataset or older_than)
    if narrowed == everything:
        raise click.UsageError("say what to remove: keys, --dataset or --older-than; or --all alone")
    disk = _disk(folder)
    entries = chosen(disk.entries(), keys, dataset, older_than)
    size = size_text(sum(e.size for e in entries))
    if everything and not yes:
        click.confirm(f"Remove all {len(entries):,} results ({size}) in {disk.folder}?", abort=True, err=True)
    for entry in entries:
        disk.remove(entry)
    disk.sweep()
    if json:
        print_json({"removed": [e.key for e in entries], "size": sum(e.size for e in entries)})
    else:
        settings.say(f"removed {len(entries):,} results ({size})")
