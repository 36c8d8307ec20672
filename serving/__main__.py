"""The commands of the service, `trivium-server COMMAND`: serve, demo, keys, erasures, doctor...

Each command imports what it needs when it runs: Ray reads its environment at import, and
`doctor` must be fast.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import pydantic
import yaml
from pydantic_settings import SettingsError

from serving.composition.process import write_no_core_dumps
from serving.config.settings import (
    Settings,
    faults_of,
    load_settings,
    set_process_environment,
    settings_as_yaml,
)
from serving.desk.interruption import Interruption
from serving.desk.leftovers import clear_dead_desks, new_temp_dir
from serving.desk.ray_environment import (
    TEMPORARY_FILES,
    DeskAddresses,
    DeskEndedError,
    DeskStartError,
    desk_environment,
)

if TYPE_CHECKING:
    from serving.config.profiles import ProfileBook
    from serving.desk.desk import Desk

NAME = "trivium"

TEND_EVERY_S = 2.0

EXIT_FAILED = 1
EXIT_MISCONFIGURED = 2
EXIT_INTERRUPTED = 130
"""The exit code that shells use for Ctrl-C: the command did not finish."""


class _LaterCommands(click.Group):
    """The commands of a module of `serving.commands`, imported when one of them is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._commands().list_commands(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._commands().get_command(ctx, cmd_name)

    def _commands(self) -> click.Group:
        commands = getattr(import_module(f"serving.commands.{self.name}"), str(self.name))
        assert isinstance(commands, click.Group)
        return commands


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Commands of the Trivium service, a retrieval memory for voice bots and agents."""


@main.command()
def serve() -> None:
    """Serve in the foreground, on persistent data, until Ctrl-C."""
    settings = _settings()
    with _interruptible() as interruption, _desk(settings, interruption) as desk:
        _say_where(desk.addresses)
        interruption.wait(desk.tend, TEND_EVERY_S)


@main.command()
@click.option(
    "--once", is_flag=True, help="Exit after the questions instead of serving until Ctrl-C."
)
def demo(*, once: bool) -> None:
    """Start everything on fresh data, ingest the sample, ask five questions, then serve."""
    from serving.desk import demo as demonstration

    settings = _settings()
    with (
        _interruptible() as interruption,
        tempfile.TemporaryDirectory(prefix="trivium-demo-") as data_dir,
    ):
        # As root, PostgreSQL runs under another account, which needs access to this folder.
        Path(data_dir).chmod(0o755)
        settings = settings.model_copy(update={"data_dir": Path(data_dir)})
        with _desk(settings, interruption) as desk:
            try:
                with interruption.at_once():
                    demonstration.play(desk.addresses.grpc)
            except demonstration.DemoFailedError as error:
                raise click.ClickException(str(error)) from error
            if not once:
                _say_where(desk.addresses)
                click.echo(f"next:      {demonstration.next_command(desk.addresses.grpc)}")
                interruption.wait(desk.tend, TEND_EVERY_S)


@main.command("check-config")
def check_config() -> None:
    """Print the effective settings, and the profiles that were read; secrets are masked."""
    settings = _settings()
    click.echo(settings_as_yaml(settings), nl=False)
    for name, file in sorted(_profiles(settings).files.items()):
        click.echo(f"# profile {name}: {file}")


@main.command("serve-config")
@click.option("--placement", type=click.Choice(["single", "split", "gpu"]), default="single")
def serve_config(placement: str) -> None:
    """Print the Serve config for `serve deploy`, as in deploy/serve.*.yaml."""
    from serving.deployments import app

    arguments = {"serve": {"placement": placement}}
    settings = _settings(arguments)
    click.echo(yaml.safe_dump(app.serve_config(settings, arguments), sort_keys=False), nl=False)


@main.group(cls=_LaterCommands, name="keys")
@click.pass_context
def keys(context: click.Context) -> None:
    """Create, list and revoke the API keys of callers."""
    context.obj = _settings()


@main.group(cls=_LaterCommands, name="erasures")
@click.pass_context
def erasures(context: click.Context) -> None:
    """Keep erased items erased after the restore of a backup."""
    context.obj = _settings()


@main.command()
@click.option("--repair", is_flag=True, help="Make the projections read what differs again.")
def verify(*, repair: bool) -> None:
    """Compare the graph and vectors with PostgreSQL."""
    from serving.commands.verify import run

    sys.exit(0 if run(_settings(), repair=repair) else EXIT_FAILED)


@main.command()
@click.argument("part", type=click.Choice(["graph", "index"]))
def rebuild(part: str) -> None:
    """Derive the graph or the index anew, while serving."""
    from serving.commands.verify import rebuild_graph, rebuild_index

    if part == "index":
        rebuild_index(_settings())
    elif not rebuild_graph(_settings()):
        sys.exit(EXIT_FAILED)


@main.command()
@click.option("--failed", is_flag=True, help="Also read turns again whose answer was unusable.")
def extract(*, failed: bool) -> None:
    """Read facts out of the stored turns; a repeat resumes."""
    from serving.commands import projecting

    projecting.extract(_settings(), failed=failed)


@main.command()
def embed() -> None:
    """Embed all rows by the model of the settings, before the service uses it; a repeat resumes."""
    from serving.commands import projecting

    projecting.embed(_settings())


@main.command()
@click.option("--tenant", required=True, help="The tenant.")
@click.argument("zone", default="")
def time_zone(*, tenant: str, zone: str) -> None:
    """Show or set where a tenant's turns are said, for requests that name no time zone."""
    from serving.commands.times import set_zone

    set_zone(_settings(), tenant=tenant, time_zone=zone)


@main.command()
@click.option("--tenant", default="", help="The tenant.  [default: all]")
def mentions(*, tenant: str) -> None:
    """Read the times that stored turns speak of again, in their tenant's time zone."""
    from serving.commands.times import read_mentions

    read_mentions(_settings(), tenant=tenant)


@main.command()
def doctor() -> None:
    """Show what this machine has and what the service would use for each part."""
    from serving.desk.doctor import examine

    settings = _settings()
    findings = examine(settings)
    width = max(len(finding.part) for finding in findings)
    for finding in findings:
        click.echo(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.part:<{width}} {finding.text}")
    sys.exit(0 if all(finding.ok for finding in findings) else EXIT_FAILED)


def _settings(arguments: Mapping[str, Any] | None = None) -> Settings:
    try:
        settings = load_settings(arguments)
    except (pydantic.ValidationError, SettingsError, OSError, yaml.YAMLError) as error:
        _end_misconfigured(faults_of(error))
    if settings.postgres.dsn is not None:
        from serving.adapters.postgres.connection.dsn import parses

        if not parses(settings.postgres.dsn.get_secret_value()):
            _end_misconfigured("postgres.dsn does not parse (TRIVIUM_POSTGRES__DSN)")
    _profiles(settings)  # invalid profiles are rejected before anything starts
    return settings


def _profiles(settings: Settings) -> ProfileBook:
    from serving.config.profiles import InvalidProfilesError, ProfileBook

    where = "retrieval.profiles (TRIVIUM_RETRIEVAL__PROFILES):"
    try:
        return ProfileBook.load(settings.retrieval.profiles)
    except InvalidProfilesError as error:
        _end_misconfigured("\n  ".join([where, *error.faults]))
    except (ValueError, OSError) as error:
        _end_misconfigured(f"{where} {error}")


def _end_misconfigured(what: str) -> NoReturn:
    click.echo(f"invalid settings: {what}", err=True)
    sys.exit(EXIT_MISCONFIGURED)


@contextlib.contextmanager
def _interruptible() -> Iterator[Interruption]:
    """Shuts the process down in order after a signal, however early or often it arrives."""
    with Interruption(_say_stopping) as interruption:
        try:
            yield interruption
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
        finally:
            if interruption.noted:
                _report("stopped")


@contextlib.contextmanager
def _desk(settings: Settings, interruption: Interruption) -> Iterator[Desk]:
    """Runs the desk; a failure is reported briefly, with the location of the log."""
    try:
        clear_dead_desks(_report)
        with new_temp_dir() as temp_dir:
            variables = desk_environment(temp_dir)
            set_process_environment(variables, replaced={TEMPORARY_FILES})
            # Imported here, because Ray reads its environment at import.
            from serving.desk.desk import running_desk

            with running_desk(settings, temp_dir, interruption, _report) as desk:
                _report(f"started in {desk.started_in_s:.0f} s")
                yield desk
    except (DeskStartError, DeskEndedError) as error:
        what = "did not start" if isinstance(error, DeskStartError) else "ended"
        click.echo(f"\nTrivium {what}: {error}", err=True)
        sys.exit(EXIT_FAILED)


def _report(line: str) -> None:
    click.echo(f"{NAME}: {line}", err=True)


def _say_stopping() -> None:
    """Reports the shutdown; runs in a signal handler, where `click.echo` is not safe."""
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), b"\ntrivium: stopping\n")


def _say_where(addresses: DeskAddresses) -> None:
    log_in = f"log in with the token in {addresses.token_file}"
    click.echo(f"\ngRPC:      {addresses.grpc}")
    click.echo(f"HTTP:      {addresses.http} (page: {addresses.http}/ui)")
    click.echo(f"dashboard: {addresses.dashboard} ({log_in})")
    click.echo(f"metrics:   {addresses.metrics}")
    click.echo("Ctrl-C stops everything.")


def run() -> None:
    """The entry point of `trivium-server` and `python -m serving`.

    Apart from `main`, which tests call: no process can take back that it writes no core dumps.
    """
    write_no_core_dumps()
    main()


if __name__ == "__main__":
    run()
