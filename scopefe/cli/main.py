"""The command ``scopefe``: finds commands, turns errors into lines and exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import traceback
from typing import Any

import click

from scopefe import __version__
from scopefe.cli.options import verbosity
from scopefe.cli.output import INTERRUPTED, Settings, logging_to_stderr, told
from scopefe.errors import suggestion

COMMANDS = {
    "init": "Write a commented spec for a table.",
    "validate": "Check specs without reading any data.",
    "compile": "Count what specs would search, side by side.",
    "execute": "Search, select, evaluate; write report and recipe.",
    "audit": "Score the whole universe, and hold pools against it.",
    "study": "Run variants on datasets; write tables, figures, one page.",
    "compare": "Compare runs side by side.",
    "components": "List operators and gates.",
    "schema": "Print the JSON Schema of specs.",
    "report": "Render the HTML report of a run again.",
    "transform": "Add a recipe's features to a table.",
    "explain": "Say what the features of a recipe are.",
    "freeze": "Write a spec of exactly a recipe's features.",
    "export": "Write a recipe as SQL, Python or JSON.",
    "cache": "See and clear what runs have stored.",
}

EPILOG = """\b
Exit codes:
    0  all went well
    1  a run failed, or could select nothing
    2  the command line, a spec or a component is at fault
    3  data or a recipe is at fault
  130  interrupted
"""


class Commands(click.Group):
    """The group of all commands; a command is imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"scopefe.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or the name closest to it."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{suggestion(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what it raises becomes lines on stderr and an exit code."""
        settings = ctx.ensure_object(Settings)
        try:
            with logging_to_stderr(settings):
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            if settings.verbose:
                click.echo(traceback.format_exc(), err=True, nl=False)
            message, code = told(error)
            click.echo(message, err=True)
            ctx.exit(code)


@click.command(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="scopefe")
@verbosity
def cli() -> None:
    """Declarative feature engineering: declare a search space, count it, search it.

    A spec is a YAML file, or the name of a shipped one: `scopefe execute quickstart`.
    """


def main() -> None:
    """Run the command line.

    LightGBM's threads spin while they wait for each other; where cores are shared, they should not for long.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    cli.main(prog_name="scopefe")
