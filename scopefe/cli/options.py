"""Options that several commands have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scopefe.cli.output import Settings

if TYPE_CHECKING:
    from scopefe.spec.models import Spec

Command = Callable[..., Any]


@dataclass(frozen=True)
class Given:
    """Specs named on the command line, with what is laid over each of them.

    Parameters
    ----------
    specs
        Files, or names of shipped specs.
    fragments
        Files that are deep-merged over every spec.
    overrides
        ``a.b=c``, over the fragments.
    modules
        Components of one's own.
    """

    specs: tuple[str, ...]
    fragments: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def load(self, *more: str) -> list[Spec]:
        """Load every spec, with further overrides.

        Raises
        ------
        SpecError
            If one of them is at fault.
        """
        return [self.load_one(spec, *more) for spec in self.specs]

    def load_one(self, spec: str, *more: str) -> Spec:
        """Load one of the specs."""
        from scopefe.spec.loader import load_spec

        return load_spec(
            spec, fragments=self.fragments, overrides=(*self.overrides, *more), modules=self.modules
        )


def verbosity(command: Command) -> Command:
    """Add ``--verbose`` and ``--quiet``."""

    def verbose(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(Settings).verbose = True

    def quiet(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(Settings).quiet = True

    options = [
        click.option("--verbose", "-v", is_flag=True, expose_value=False, callback=verbose,
                     help="Log what happens; show tracebacks."),
        click.option("--quiet", "-q", is_flag=True, expose_value=False, callback=quiet,
                     help="Say nothing but errors."),
    ]  # fmt: skip
    return _all(options, command)


def modules(command: Command) -> Command:
    """Add ``--module``, given to the command as `modules`."""
    option = click.option(
        "--module", "modules", multiple=True, metavar="MODULE",
        help="Python file or importable module with components of your own; may be repeated.",
    )  # fmt: skip
    return option(command)


def as_json(command: Command) -> Command:
    """Add ``--json``, given to the command as `json`."""
    return click.option("--json", "json", is_flag=True, help="Print JSON.")(command)


def no_cache(command: Command) -> Command:
    """Add ``--no-cache``, given to the command as `no_cache`."""
    return click.option("--no-cache", is_flag=True, help="Compute all anew; keep and reuse nothing.")(command)


def cache_override(no_cache: bool) -> list[str]:
    """Return the override that ``--no-cache`` stands for."""
    return ["execution.cache=false"] if no_cache else []


def given_specs(command: Command) -> Command:
    """Add specs and what is laid over them, given to the command as one `Given`."""

    @functools.wraps(command)
    def shell(
        *args: Any,
        specs: tuple[str, ...],
        fragments: tuple[str, ...],
        overrides: tuple[str, ...],
        modules: tuple[str, ...],
        **others: Any,
    ) -> Any:
        return command(*args, given=Given(specs, fragments, overrides, modules), **others)

    options: list[Callable[[Command], Command]] = [
        click.argument("specs", nargs=-1, required=True, metavar="SPEC..."),
        click.option("--with", "fragments", multiple=True, metavar="FILE",
                     help="YAML file to merge over every spec; may be repeated."),
        click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE",
                     help="Override one value, such as selection.keep=20; may be repeated."),
        modules,
    ]  # fmt: skip
    return _all(options, shell)


def _all(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


class OutputFile(click.Path):
    """A file to write, in a folder that exists, with a name that ends in one of the suffixes, if any."""

    name = "file"

    def __init__(self, *suffixes: str) -> None:
        super().__init__(dir_okay=False, path_type=Path)
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the place before any work is done."""
        path = super().convert(value, param, ctx)
        assert isinstance(path, Path)
        if self.suffixes and not path.name.lower().endswith(self.suffixes):
            self.fail(f"{value!r} must end in {', '.join(self.suffixes)}", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r}", param, ctx)
        return path
