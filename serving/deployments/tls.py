"""TLS for Ray Serve's gRPC servers, by the one hook that there is.

Serve has no option for TLS. Its gRPC servers call `default_impl.add_grpc_address` to bind a port;
this module replaces that function. A test checks that Serve still calls it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import grpc

from serving.config.settings import TlsSettings

logger = logging.getLogger(__name__)

HOOK = "add_grpc_address"


def listen_with_tls(settings: TlsSettings, ingress: str) -> None:
    """Makes the gRPC servers that this process starts from now on speak TLS.

    Does nothing if the settings name no certificate.

    Raises:
        RuntimeError: HAProxy answers the port, which cannot do TLS; or this version of Ray is not
            supported. The service must not start in clear text.
        OSError: A file cannot be read.
        ValueError: A file is not a certificate or key.
    """
    if settings.certificate is None:
        return
    if ingress == "haproxy":
        raise RuntimeError(
            "tls: HAProxy answers the gRPC port without TLS; set RAY_SERVE_ENABLE_HA_PROXY=0, or "
            "unset tls and let a proxy in front of it do TLS"
        )
    from ray.serve._private import default_impl

    if not callable(getattr(default_impl, HOOK, None)):
        raise RuntimeError(f"unsupported version of Ray: there is no {HOOK} to replace")
    credentials = server_credentials(settings)

    def add_grpc_address(server: Any, address: str) -> None:
        server.add_secure_port(address, credentials)

    setattr(default_impl, HOOK, add_grpc_address)


def server_credentials(settings: TlsSettings) -> grpc.ServerCredentials:
    """Credentials that follow their files: a changed certificate counts for the next connection.

    Raises:
        OSError: A file cannot be read.
    """
    files = CertificateFiles(settings)
    # Its type omits that the function may return None, which keeps the configuration.
    changed: Any = files.changed
    return grpc.dynamic_ssl_server_credentials(files.read(), changed)


class CertificateFiles:
    """Reads the files of a certificate, and again when they have changed."""

    def __init__(self, settings: TlsSettings) -> None:
        assert settings.certificate is not None, "there is no TLS without a certificate"
        assert settings.key is not None, "the settings require both or none"
        self._files = (settings.key, settings.certificate)
        self._seen: Sequence[object] = ()

    def read(self) -> grpc.ServerCertificateConfiguration:
        """Reads both files.

        Raises:
            OSError: A file cannot be read.
        """
        self._seen = self._state()
        key, certificate = self._files
        return grpc.ssl_server_certificate_configuration(
            [(key.read_bytes(), certificate.read_bytes())]
        )

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """The changed configuration; None if nothing changed or a file cannot be read.

        gRPC calls this for each new connection.
        """
        try:
            return self.read() if self._state() != self._seen else None
        except OSError as error:
            logger.warning("certificate reload failed", extra={"reason": str(error)})
            return None

    def _state(self) -> Sequence[object]:
        states = [file.stat() for file in self._files]
        return [(each.st_ino, each.st_mtime_ns, each.st_size) for each in states]
