"""How commands talk: data on stdout, text for people on stderr, files that are whole or absent."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scopefe.errors import ScopefeError

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERRUPTED = 130


@dataclass
class Settings:
    """How much is said.

    Parameters
    ----------
    verbose
        Log everything, and show tracebacks.
    quiet
        Say nothing but errors.
    """

    verbose: bool = False
    quiet: bool = False

    def say(self, text: str) -> None:
        """Tell people something, on stderr."""
        if not self.quiet:
            click.echo(text, err=True)


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def told(error: Exception) -> tuple[str, int]:
    """Return what is said of an error, and the exit code it has."""
    if isinstance(error, ScopefeError):
        return error_lines(error), error.exit_code
    if isinstance(error, OSError) and error.filename is not None:
        return f"error: {error.filename}: {error.strerror}", 1
    first = next(iter(str(error).strip().splitlines()), "")
    return f"internal error: {type(error).__name__}: {first}; run again with --verbose", 1


def error_lines(error: ScopefeError) -> str:
    """Return the lines of an error, each marked as one."""
    return "\n".join(f"error: {line}" for line in str(error).splitlines())


def print_json(value: Any) -> None:
    """Print a JSON document, on stdout."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_table(*parts: RenderableType) -> None:
    """Print tables and headings, on stdout: as wide as they are where it is no terminal."""
    from rich.console import Console

    plain = {"markup": False, "emoji": False, "highlight": False}
    console = Console(**plain) if sys.stdout.isatty() else Console(**plain, width=100_000)  # type: ignore[arg-type]
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_or_write(settings: Settings, text: str, output: Path | None) -> None:
    """Print a text on stdout, or write it into a file that is whole."""
    if output is None:
        click.echo(text, nl=False)
        return
    with whole_file(output) as path:
        path.write_text(text, encoding="utf-8")
    settings.say(f"wrote {output}")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give another name to write under; the file gets its own name when it is whole."""
    target = Path(os.path.realpath(path))
    work = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        yield work
        work.replace(target)
    except BaseException:
        work.unlink(missing_ok=True)
        raise


def one_line(text: str) -> str:
    """Return text with what cannot be printed, such as a line break in a name, as Python writes it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class LogLines(logging.Handler):
    """Log records as lines on stderr: warnings and errors, more or less by the settings."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        settings = self.settings
        least = logging.DEBUG if settings.verbose else logging.ERROR if settings.quiet else logging.WARNING
        if record.levelno >= least:
            click.echo(f"{record.levelname.lower()}: {record.getMessage()}", err=True)


@contextmanager
def logging_to_stderr(settings: Settings) -> Iterator[None]:
    """Show what scopefe logs for as long as a command runs."""
    logger, handler = logging.getLogger("scopefe"), LogLines(settings)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
