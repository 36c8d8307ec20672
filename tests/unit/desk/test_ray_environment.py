"""Two desks on one machine share no port; by default Ray would share them and mix up calls."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from serving.config.settings import ServeSettings, set_process_environment
from serving.desk.leftovers import new_temp_dir
from serving.desk.ray_environment import (
    CLUSTER_PORTS,
    LONGEST_TEMP_DIR,
    LOOPBACK,
    QUIET_PORTS,
    TEMPORARY_FILES,
    DeskStartError,
    choose_ports,
    desk_environment,
    free_ports,
)


def test_ports_in_use_are_not_chosen() -> None:
    first = free_ports(4)
    with socket.socket() as taken:
        taken.bind((LOOPBACK, first + 1))
        taken.listen()

        assert free_ports(2, among=range(first, first + 4)) == first + 2


def test_ports_and_files_of_ray_belong_to_the_desk(tmp_path: Path) -> None:
    environment = desk_environment(tmp_path)

    ports = [int(value) for name, value in environment.items() if name.endswith("_PORT")]
    assert len(ports) == 8
    assert set(ports) <= set(CLUSTER_PORTS)
    assert set(CLUSTER_PORTS).isdisjoint(QUIET_PORTS)
    assert environment[TEMPORARY_FILES] == str(tmp_path)


def test_the_token_is_for_its_owner_alone(tmp_path: Path) -> None:
    token_file = Path(desk_environment(tmp_path)["RAY_AUTH_TOKEN_PATH"])

    assert token_file.stat().st_mode & 0o077 == 0
    assert len(token_file.read_text()) == 64


def test_missing_free_ports_fail_the_start() -> None:
    with pytest.raises(DeskStartError, match="no 2 consecutive ports"):
        free_ports(2, among=range(25_000, 25_001))


def test_configured_port_in_use_is_reported_with_setting() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        # The others are of no matter here, and may be taken.
        settings = ServeSettings(http_port=port, grpc_port=0, dashboard_port=0, metrics_port=0)

        with pytest.raises(DeskStartError, match=r"in use.*TRIVIUM_SERVE__HTTP_PORT"):
            choose_ports(settings)


@pytest.mark.parametrize(("length", "is_used"), [(19, True), (20, False)])
def test_temporary_folder_path_is_short_enough_for_sockets(
    monkeypatch: pytest.MonkeyPatch, length: int, is_used: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="trv-") as folder:
        usual = Path(folder).joinpath("x" * (length - len(folder) - 1))
        usual.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(usual))

        with new_temp_dir() as temp_dir:
            assert len(str(temp_dir)) <= LONGEST_TEMP_DIR
            assert temp_dir.is_relative_to(usual) == is_used


def test_other_accounts_cannot_enter_the_folder_of_ray() -> None:
    with new_temp_dir() as temp_dir:
        temp_dir.chmod(0o777)  # as Ray does

        assert temp_dir.parent.stat().st_mode & 0o077 == 0


def test_user_environment_stays_unless_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRV_KEPT", "TRV_REPLACED"):
        monkeypatch.setenv(name, "theirs")

    set_process_environment({"TRV_KEPT": "ours", "TRV_REPLACED": "ours"}, replaced={"TRV_REPLACED"})

    environment = os.environ  # noqa: TID251 - what was set is looked at
    assert (environment["TRV_KEPT"], environment["TRV_REPLACED"]) == ("theirs", "ours")
