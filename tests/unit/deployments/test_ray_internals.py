"""What is used of Ray beyond its API, and so ties the service to one version of it."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module

import pytest

from tests.support.tracked_files import ROOT, tracked_files

USED = {
    "ray._private.services:ConsolePopen": "serving/desk/ray_cluster.py",
    "ray._private.services:get_node": "serving/desk/ray_cluster.py",
    "ray._private.utils:set_sigterm_handler": "serving/desk/ray_cluster.py",
    "ray.serve.context:_get_global_client": "serving/desk/ray_cluster.py",
    "ray.serve._private.grpc_util:gRPCGenericServer": "serving/deployments/server.py",
    "ray.serve._private.replica:start_asgi_http_server": "serving/deployments/server.py",
    "ray.serve._private.haproxy:HAProxyApi": "serving/desk/loopback.py",
    "ray.serve._private.haproxy_templates:HAPROXY_CONFIG_TEMPLATE": "serving/desk/loopback.py",
}
"""Names, and the file that uses each: where to look before another version is pinned."""


@pytest.mark.parametrize("name", USED)
def test_private_name_of_ray_exists(name: str) -> None:
    module, _, attribute = name.partition(":")

    assert attribute in (ROOT / USED[name]).read_text()
    assert hasattr(import_module(module), attribute), f"look at {USED[name]}"


def test_files_with_private_modules_of_ray_are_listed() -> None:
    private = {
        path
        for path in tracked_files("serving/*.py")
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        if re.search(r"\bray\b.*\b_", ast.unparse(node))
    }

    assert private == set(USED.values())


def test_version_of_ray_is_exact() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    [ray] = [each for each in project["dependencies"] if each.startswith("ray")]

    assert re.fullmatch(r"ray\[serve\]==\d+\.\d+\.\d+", ray)
