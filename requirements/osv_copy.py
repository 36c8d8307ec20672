"""Runs pip-audit with a copy of OSV's database instead of the network.

    python requirements/osv_copy.py all.zip pip-audit --strict -r requirements/desk.txt

The copy is the zip file of the ecosystem PyPI that OSV publishes, with a JSON file for each
vulnerability. pip-audit reads no files, but asks any address that answers like OSV: here a server
on loopback that ends with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Entry: TypeAlias = Mapping[str, Any]
"""A part of a vulnerability, in OSV's schema."""

ECOSYSTEM = "PyPI"


class OsvCopy:
    """The vulnerabilities of a copy, by package.

    Attributes:
        modified: When the newest of them was changed, which is about the age of the copy.
    """

    def __init__(self, vulnerabilities: Iterable[Entry]) -> None:
        self._by_package: defaultdict[str, list[Entry]] = defaultdict(list)
        self.modified = ""
        for vulnerability in vulnerabilities:
            self.modified = max(self.modified, vulnerability["modified"])
            for name in {name for name, _ in _affected(vulnerability)}:
                self._by_package[name].append(vulnerability)

    def __len__(self) -> int:
        """The number of packages with a vulnerability."""
        return len(self._by_package)

    def of(self, package: str, version: str) -> list[Entry]:
        """The vulnerabilities of a version of a package."""
        wanted, given = canonicalize_name(package), Version(version)
        return [
            vulnerability
            for vulnerability in self._by_package.get(wanted, ())
            if any(
                name == wanted and is_affected(given, entry)
                for name, entry in _affected(vulnerability)
            )
        ]


def _affected(vulnerability: Entry) -> Iterable[tuple[str, Entry]]:
    """What a vulnerability says of packages of Python, with their names."""
    for entry in vulnerability.get("affected", ()):
        if entry.get("package", {}).get("ecosystem") == ECOSYSTEM:
            yield canonicalize_name(entry["package"]["name"]), entry


def is_affected(version: Version, entry: Entry) -> bool:
    """Whether a version is listed, or within a range, as OSV's schema defines it."""
    listed = any(_is(version, each) for each in entry.get("versions", ()))
    return listed or any(
        _is_within(version, range_["events"])
        for range_ in entry.get("ranges", ())
        if range_["type"] == "ECOSYSTEM"
    )


def _is(version: Version, listed: str) -> bool:
    try:
        return version == Version(listed)
    except InvalidVersion:  # from before PEP 440; no pin is such a version
        return False


def _is_within(version: Version, events: Sequence[Mapping[str, str]]) -> bool:
    within = False
    try:
        dated = sorted((Version(at), kind) for event in events for kind, at in event.items())
    except InvalidVersion:
        return True  # a false alarm is better than none
    for at, kind in dated:
        if kind == "introduced" and version >= at:
            within = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            within = False
    return within


def read(file: Path) -> OsvCopy:
    """Reads the zip file of an ecosystem."""
    with zipfile.ZipFile(file) as copy:
        names = [name for name in copy.namelist() if name.endswith(".json")]
        return OsvCopy(json.loads(copy.read(name)) for name in names)


def server_of(copy: OsvCopy) -> ThreadingHTTPServer:
    """Answers like the method `v1/query` of OSV, on a free port of loopback."""

    class Query(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = copy.of(asked["package"]["name"], asked["version"])
            answer = json.dumps({"vulns": found} if found else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Query)


def main(file: str, *command: str) -> int:
    """Runs a command of pip-audit; returns its exit code."""
    try:
        copy = read(Path(file))
    except (OSError, zipfile.BadZipFile, ValueError, KeyError) as error:
        sys.exit(f"{file} is no copy of OSV's database: {error!r}")
    if not copy:
        sys.exit(f"{file} has no vulnerability of {ECOSYSTEM}")
    print(f"vulnerabilities of {len(copy)} packages, as known on {copy.modified[:10]}", flush=True)
    with server_of(copy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/query"
        code = subprocess.run(
            [*command, "--vulnerability-service", "osv", "--osv-url", url], check=False
        ).returncode
        server.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
