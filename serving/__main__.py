"""The commands of the service: `python -m serving serve | demo | doctor | check-config`.

Each imports what it needs when it runs: Ray reads its environment at import, and `doctor` is to
be quick.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click
import pydantic
import yaml

from serving.config import Settings, load_settings, set_process_environment, settings_as_yaml
from serving.deployments.ray_environment import DeskAddresses, desk_environment

EXIT_FAILED = 1
EXIT_MISCONFIGURED = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Trivium, the retrieval memory of voice bots: the service's own commands."""


@main.command()
def serve() -> None:
    """Serve in the foreground, on persistent data, until Ctrl-C."""
    with _desk(_settings()) as addresses:
        _say_where(addresses)
        _wait_for_the_end()


@main.command()
@click.option("--once", is_flag=True, help="End after the questions instead of serving on.")
def demo(*, once: bool) -> None:
    """Start everything on fresh data, ingest the sample, ask five questions, serve on."""
    from serving.deployments import demo as demonstration

    with tempfile.TemporaryDirectory(prefix="trivium-demo-") as data_dir:
        # PostgreSQL runs under another account when we are root, and has to get in.
        Path(data_dir).chmod(0o755)
        settings = _settings().model_copy(update={"data_dir": Path(data_dir)})
        with _desk(settings) as addresses:
            try:
                demonstration.play(addresses.grpc)
            except demonstration.DemoFailedError as error:
                raise click.ClickException(str(error)) from error
            if not once:
                _say_where(addresses)
                click.echo(f"next:      {demonstration.next_command(addresses.grpc)}")
                _wait_for_the_end()


@main.command("check-config")
def check_config() -> None:
    """Print the settings in force, secrets masked."""
    click.echo(settings_as_yaml(_settings()), nl=False)


@main.command("serve-config")
@click.option("--placement", type=click.Choice(["fused", "split"]), default="fused")
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
        return load_settings()
    except (pydantic.ValidationError, OSError, yaml.YAMLError) as error:
        click.echo(f"the settings are wrong: {error}", err=True)
        sys.exit(EXIT_MISCONFIGURED)


@contextlib.contextmanager
def _desk(settings: Settings) -> Iterator[DeskAddresses]:
    """Runs the desk; what goes wrong is told in one screen, with where its log is."""
    with (
        tempfile.TemporaryDirectory(prefix="trv-", ignore_cleanup_errors=True) as temp_dir,
        _ended_by_sigterm(),
    ):
        set_process_environment(desk_environment(Path(temp_dir)))
        # Only now: Ray reads its environment when it is imported.
        from serving.deployments.desk import START_ERRORS, running_desk

        try:
            with running_desk(settings, Path(temp_dir), _report) as desk:
                _report(f"up in {desk.started_in_s:.0f} s")
                yield desk.addresses
        except START_ERRORS as error:
            click.echo(f"\nTrivium did not start: {error}", err=True)
            sys.exit(EXIT_FAILED)
        except KeyboardInterrupt:
            click.echo("\nstopped", err=True)


def _report(line: str) -> None:
    click.echo(f"trivium: {line}", err=True)


def _say_where(addresses: DeskAddresses) -> None:
    click.echo(f"\ngRPC:      {addresses.grpc}")
    click.echo(f"dashboard: {addresses.dashboard} (asks for the token in {addresses.token_file})")
    click.echo(f"metrics:   {addresses.metrics}")
    click.echo("Ctrl-C stops everything.")


def _wait_for_the_end() -> None:
    threading.Event().wait()


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Makes SIGTERM end the process as Ctrl-C does, so that everything is stopped."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    main()
