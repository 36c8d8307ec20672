"""A service in each placement, with the dependencies that can fail there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from bench.harness.collection import Collection
from bench.harness.connections import MAX_CONNECTIONS, Connections, connected
from bench.harness.service import fresh_data, started
from bench.harness.writing import store
from bench.reports.recording import console
from bench.speed.faults.dependencies import REPLICAS, Dependency, Replica, stores


async def in_each_placement(
    collection: Collection,
    measure: Callable[[Connections, Sequence[Dependency]], Awaitable[None]],
) -> None:
    """Measures a service in `single` with its stores, then one in `split` with its replicas.

    Both have the same stores, which hold the collection.
    """
    console.print("starting PostgreSQL and Neo4j")
    with fresh_data() as folder:
        async with stores(folder) as (of_stores, settings):
            for placement in ("single", "split"):
                console.print(f"starting the service, {placement}")
                environment = {**settings, "TRIVIUM_SERVE__PLACEMENT": placement}
                async with (
                    started(folder, environment) as service,
                    connected(service.address, MAX_CONNECTIONS) as connections,
                ):
                    dependencies: Sequence[Dependency] = of_stores
                    if placement == "split":
                        dependencies = [Replica(name, service.pid) for name in REPLICAS]
                    await store(connections, collection)
                    await measure(connections, dependencies)
