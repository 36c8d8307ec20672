"""TLS for Ray Serve's gRPC servers, by the one hook that there is.

Serve has no option for TLS. Its gRPC servers call `default_impl.add_grpc_address` to bind a port;
this module replaces that function. A test checks that Serve still calls it.
"""

from __future__ import annotations

import logging
from pathlib import Path
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
    return grpc.dynamic_ssl_server_credentials(
        files.read(), changed, require_client_authentication=settings.client_ca is not None
    )


class CertificateFiles:
    """Reads the files of a certificate, and again when they have changed."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._seen: tuple[object, ...] = ()

    def read(self) -> grpc.ServerCertificateConfiguration:
        """Reads all files.

        Raises:
            OSError: A file cannot be read.
        """
        settings = self._settings
        assert settings.certificate is not None, "there is no TLS without a certificate"
        assert settings.key is not None, "the settings require both or none"
        self._seen = self._state()
        return grpc.ssl_server_certificate_configuration(
            [(settings.key.read_bytes(), settings.certificate.read_bytes())],
            root_certificates=_read_or_none(settings.client_ca),
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

    def _state(self) -> tuple[object, ...]:
        files = (self._settings.certificate, self._settings.key, self._settings.client_ca)
        return tuple(_identity(file) for file in files if file is not None)


def _identity(file: Path) -> tuple[int, int, int]:
    state = file.stat()
    return state.st_ino, state.st_mtime_ns, state.st_size


def _read_or_none(file: Path | None) -> bytes | None:
    return None if file is None else file.read_bytes()
