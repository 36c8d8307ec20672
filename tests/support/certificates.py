"""Certificates for tests, issued by authorities of their own."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.x509.oid import NameOID

HOUR = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Issues certificates."""

    def __init__(self) -> None:
        self._key = generate_private_key(SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.pem = _pem(self._signed(self._name, self._key, x509.BasicConstraints(True, None)))

    def issue(self, name: str, *addresses: str) -> Issued:
        """Issues a certificate for a name and for IP addresses."""
        key = generate_private_key(SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        numbers = [x509.IPAddress(ip_address(each)) for each in addresses]
        names = x509.SubjectAlternativeName([x509.DNSName(name), *numbers])
        return Issued(
            _pem(self._signed(subject, key, names)),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def _signed(
        self, subject: x509.Name, key: EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - HOUR)
            .not_valid_after(now + HOUR)
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
