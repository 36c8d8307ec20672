"""The command `python -m bench.speed.http`: what HTTP costs, compared with gRPC.

It asks the questions of the sample of a `make demo` that runs, by each protocol in turns, so that
what else the machine does falls on all of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import islice

import click
import grpc.aio
from aiohttp import ClientSession
from google.protobuf.json_format import MessageToJson

from bench.harness import options
from bench.harness.load import Ask, closed_loop, repeated
from bench.harness.results import Latency
from bench.harness.sample import FOLDER
from trivium.v1 import retrieval_service_pb2 as retrieval_pb
from trivium.v1 import retrieval_service_pb2_grpc as retrieval_grpc

PATH = "/trivium.v1.RetrievalService/Retrieve"
CALLERS = (1, 8)
ROUNDS = 10

AskAny = Ask[retrieval_pb.RetrieveRequest, int]


def questions(tenant: str) -> list[retrieval_pb.RetrieveRequest]:
    """The questions of the sample."""
    lines = (FOLDER / "questions.jsonl").read_text().splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    return [retrieval_pb.RetrieveRequest(tenant=tenant, query=text, limit=10) for text in texts]


@asynccontextmanager
async def protocols(grpc_address: str, http_address: str) -> AsyncIterator[Mapping[str, AskAny]]:
    """A question by each protocol, which returns the number of hits."""
    async with (
        grpc.aio.insecure_channel(grpc_address) as channel,
        ClientSession(http_address, raise_for_status=True) as session,
    ):
        stub = retrieval_grpc.RetrievalServiceStub(channel)

        async def by_grpc(request: retrieval_pb.RetrieveRequest) -> int:
            return len((await stub.Retrieve(request)).hits)

        async def posted(body: bytes, content_type: str) -> bytes:
            headers = {"content-type": content_type}
            async with session.post(PATH, data=body, headers=headers) as response:
                return await response.read()

        async def by_json(request: retrieval_pb.RetrieveRequest) -> int:
            body = MessageToJson(request, indent=None).encode()
            answer = json.loads(await posted(body, "application/json"))
            return len(answer.get("hits", ()))  # JSON leaves out what is empty

        async def by_binary(request: retrieval_pb.RetrieveRequest) -> int:
            body = await posted(request.SerializeToString(), "application/proto")
            return len(retrieval_pb.RetrieveResponse.FromString(body).hits)

        yield {"gRPC": by_grpc, "HTTP, JSON": by_json, "HTTP, binary": by_binary}


async def measure(grpc_address: str, http_address: str, tenant: str, calls: int) -> None:
    """Prints p50 and answers per second of each protocol, by callers."""
    asked = questions(tenant)
    click.echo(f"{'callers':>7}  {'protocol':<14}{'p50 ms':>8}{'p95 ms':>8}{'answers/s':>11}")
    async with protocols(grpc_address, http_address) as asks:
        for callers in CALLERS:
            seconds: dict[str, list[float]] = {name: [] for name in asks}
            took = dict.fromkeys(asks, 0.0)
            for number in range(ROUNDS + 1):
                for name, ask in asks.items():
                    part = islice(repeated(asked, calls), calls // ROUNDS)
                    run = await closed_loop(ask, part, callers)
                    if number > 0:  # the first round is for connections
                        seconds[name] += [elapsed for elapsed, _ in run.answered]
                        took[name] += run.seconds
            for name, times in seconds.items():
                latency, rate = Latency.of(times), len(times) / took[name]
                figures = f"{latency.p50_ms:8.2f}{latency.p95_ms:8.2f}{rate:11.1f}"
                click.echo(f"{callers:>7}  {name:<14}{figures}")


@click.command(context_settings=options.HELP)
@click.option("--address", default="127.0.0.1:9000", show_default=True, help="The port of gRPC.")
@click.option("--http", default="http://127.0.0.1:8000", show_default=True, help="That of HTTP.")
@click.option("--tenant", default="demo", show_default=True, help="Who has the sample.")
@options.count("--calls", 1000, "By each protocol.", least=ROUNDS)
def main(address: str, http: str, tenant: str, calls: int) -> None:
    """Compare HTTP with gRPC on a `make demo` that runs."""
    asyncio.run(measure(address, http, tenant, calls))


if __name__ == "__main__":
    main()
