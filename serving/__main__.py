"""The commands of the service: `python -m serving serve | demo | doctor | check-config`.

Each imports what it needs when it runs: Ray reads its environment at import, and `doctor` is to
be quick.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click
import pydantic
import yaml
from pydantic_settings import SettingsError

from serving.config import Settings, load_settings, set_process_environment, settings_as_yaml
from serving.deployments.console import Console
from serving.deployments.interruption import Interruption
from serving.deployments.ray_environment import (
    TEMPORARY_FILES,
    DeskAddresses,
    DeskStartError,
    desk_environment,
    new_temp_dir,
)

NAME = "trivium"

EXIT_FAILED = 1
EXIT_MISCONFIGURED = 2
EXIT_INTERRUPTED = 130
"""As shells say of what Ctrl-C ended: it had not yet done what it was started for."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Trivium, the retrieval memory of voice bots: the service's own commands."""


@main.command()
def serve() -> None:
    """Serve in the foreground, on persistent data, until Ctrl-C."""
    settings = _settings()
    with _interruptible() as interruption, _desk(settings, interruption) as addresses:
        _say_where(addresses)
        interruption.wait()


@main.command()
@click.option("--once", is_flag=True, help="End after the questions instead of serving on.")
def demo(*, once: bool) -> None:
    """Start everything on fresh data, ingest the sample, ask five questions, serve on."""
    from serving.deployments import demo as demonstration

    settings = _settings()
    with (
        _interruptible() as interruption,
        tempfile.TemporaryDirectory(prefix="trivium-demo-") as data_dir,
    ):
        # PostgreSQL runs under another account when we are root, and has to get in.
        Path(data_dir).chmod(0o755)
        settings = settings.model_copy(update={"data_dir": Path(data_dir)})
        with _desk(settings, interruption) as addresses:
            try:
                with interruption.at_once():
                    demonstration.play(addresses.grpc)
            except demonstration.DemoFailedError as error:
                raise click.ClickException(str(error)) from error
            if not once:
                _say_where(addresses)
                click.echo(f"next:      {demonstration.next_command(addresses.grpc)}")
                interruption.wait()


@main.command("check-config")
def check_config() -> None:
    """Print the settings in force, secrets masked."""
    click.echo(settings_as_yaml(_settings()), nl=False)


@main.command("serve-config")
@click.option("--placement", type=click.Choice(["fused", "split", "gpu"]), default="fused")
def serve_config(placement: str) -> None:
    """Print the Serve config for `serve deploy`, as deploy/serve.*.yaml hold it."""
    from serving.deployments import app

    arguments = {"serve": {"placement": placement}}
    settings = load_settings(arguments)
    click.echo(yaml.safe_dump(app.serve_config(settings, arguments), sort_keys=False), nl=False)


@main.command()
def doctor() -> None:
    """Say what this machine has and what will be used for each part."""
    from serving.deployments.doctor import examine

    settings = _settings()
    findings = examine(settings)
    for finding in findings:
        click.echo(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.part:<12} {finding.text}")
    sys.exit(0 if all(finding.ok for finding in findings) else EXIT_FAILED)


def _settings() -> Settings:
    try:
        settings = load_settings()
    except (pydantic.ValidationError, SettingsError, OSError, yaml.YAMLError) as error:
        _end_misconfigured(str(error))
    if settings.postgres.dsn is not None:
        from serving.adapters.postgres.dsn import parses

        if not parses(settings.postgres.dsn.get_secret_value()):
            _end_misconfigured("postgres.dsn does not parse (TRIVIUM_POSTGRES__DSN)")
    _require_profiles(settings)
    return settings


def _require_profiles(settings: Settings) -> None:
    """Refuses profiles that the service could not start with, before anything has started."""
    from serving.profiles import ProfileBook

    try:
        ProfileBook.load(settings.retrieval.profiles)
    except (ValueError, OSError) as error:
        _end_misconfigured(f"retrieval.profiles (TRIVIUM_RETRIEVAL__PROFILES): {error}")


def _end_misconfigured(what: str) -> NoReturn:
    click.echo(f"the settings are wrong: {what}", err=True)
    sys.exit(EXIT_MISCONFIGURED)


@contextlib.contextmanager
def _interruptible() -> Iterator[Interruption]:
    """Ends the process in order when it is asked to, however often and early that is."""
    with Interruption(_say_stopping) as interruption:
        try:
            yield interruption
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
        finally:
            if interruption.noted:
                Console(sys.stderr, NAME)("stopped")


@contextlib.contextmanager
def _desk(settings: Settings, interruption: Interruption) -> Iterator[DeskAddresses]:
    """Runs the desk; what goes wrong is told in one screen, with where its log is."""
    try:
        with new_temp_dir() as temp_dir:
            variables = desk_environment(Path(temp_dir))
            set_process_environment(variables, replaced={TEMPORARY_FILES})
            # Only now: Ray reads its environment when it is imported.
            from serving.deployments.desk import running_desk

            report = Console(sys.stderr, NAME)
            with running_desk(settings, Path(temp_dir), interruption, report) as desk:
                report(f"up in {desk.started_in_s:.0f} s")
                yield desk.addresses
    except DeskStartError as error:
        click.echo(f"\nTrivium did not start: {error}", err=True)
        sys.exit(EXIT_FAILED)


def _say_stopping() -> None:
    """Says so in the middle of anything, where `click.echo` might be what was interrupted."""
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), b"\ntrivium: stopping\n")


def _say_where(addresses: DeskAddresses) -> None:
    click.echo(f"\ngRPC:      {addresses.grpc}")
    click.echo(f"dashboard: {addresses.dashboard} (asks for the token in {addresses.token_file})")
    click.echo(f"metrics:   {addresses.metrics}")
    click.echo("Ctrl-C stops everything.")


if __name__ == "__main__":
    main()
