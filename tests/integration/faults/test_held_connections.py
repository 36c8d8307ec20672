"""Connections that callers hold open without a call, at HAProxy; the service does not see them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from serving.desk.ray_environment import LOOPBACK, free_ports
from tests.fixtures.cluster import Encryption
from tests.support.haproxy import PORTS, TLS_CONFIG, running, tls_proxy, write_config
from tests.support.waiting import until_async

SETTINGS = bytes.fromhex("000000040000000000")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS
HALF_OF_HEADERS = PREFACE + bytes.fromhex("000090010400000001") + b"\x00\x07:method"
SENT = [b"", PREFACE[:10], PREFACE, HALF_OF_HEADERS]
ANY_METHOD = "/trivium.v1.RetrievalService/Retrieve"
READY = grpc.ChannelConnectivity.READY


def in_a_hurry(config: str) -> str:
    """The configuration with less patience for headers, and between requests by HTTP."""
    for before, after in (("http-request 10s", "http-request 300ms"), ("alive 90s", "alive 100ms")):
        config = config.replace(before, after)
    return config


async def closed(port: int, sent: bytes, tls: ssl.SSLContext | None = None) -> None:
    """Returns when the other side has closed a connection that says no more than this."""
    with contextlib.suppress(ConnectionError):
        reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=tls)
        writer.write(sent)
        while await reader.read(1024):
            pass
        writer.close()


async def used(channel: grpc.aio.Channel) -> None:
    """Calls once; there is no service that could answer."""
    call: Any = channel.unary_unary(ANY_METHOD)
    assert await call(b"", wait_for_ready=True).code() is grpc.StatusCode.UNAVAILABLE


async def test_half_sent_headers_are_ended_on_both_ports(tmp_path: Path) -> None:
    config, port = tmp_path / "haproxy.cfg", free_ports(PORTS)
    config.write_text(in_a_hurry(write_config(config, port, on_desk=True)))

    with running(config, port):
        async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as idle:
            await used(idle)
            await asyncio.gather(
                *(closed(port, sent) for sent in SENT),
                *(closed(port + 1, sent) for sent in (b"", b"GET / HTTP/1.1\r\nhost: a")),
                closed(port, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"),
            )
            assert idle.get_state() is READY


async def test_half_sent_headers_are_ended_behind_tls(
    tmp_path: Path, encryption: Encryption
) -> None:
    config = tmp_path / "haproxy.cfg"
    config.write_text(in_a_hurry(TLS_CONFIG.read_text()))
    tls = ssl.create_default_context(cafile=encryption.ca_file)
    tls.check_hostname = False
    tls.set_alpn_protocols(["h2"])
    trusted = grpc.ssl_channel_credentials(encryption.ca_file.read_bytes())

    with tls_proxy(encryption.pem_file, f"{LOOPBACK}:{free_ports(1)}", config) as address:
        async with grpc.aio.secure_channel(address, trusted) as idle:
            await used(idle)
            port = int(address.rpartition(":")[2])
            await asyncio.gather(*(closed(port, sent, tls) for sent in SENT))
            assert idle.get_state() is READY


async def test_address_cannot_hold_all_connections(tmp_path: Path, encryption: Encryption) -> None:
    config = tmp_path / "haproxy.cfg"
    config.write_text(TLS_CONFIG.read_text().replace("conn_cur gt 256", "conn_cur gt 1"))

    with tls_proxy(encryption.pem_file, f"{LOOPBACK}:{free_ports(1)}", config) as address:
        port = int(address.rpartition(":")[2])
        tls = ssl.create_default_context(cafile=encryption.ca_file)
        held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

        async def one_is_held() -> bool:
            """False while the connection that waited for HAProxy counts: no handshake succeeds."""
            with contextlib.suppress(ConnectionError):
                held.append(await asyncio.open_connection("localhost", port, ssl=tls))
            return bool(held)

        await until_async(one_is_held)
        await closed(port, b"")

        [(reader, writer)] = held
        assert not reader.at_eof()
        writer.close()
