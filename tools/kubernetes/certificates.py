"""Certificates of one control plane: its own authority, and what it signs. Valid for a year, kept in the plane's home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID: Final = timedelta(days=365)
_SLACK: Final = timedelta(hours=1)
"""Valid from a little before now: clocks differ."""


Key = EllipticCurvePrivateKey | RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files lie in `folder`: the one that is there already, or a new one.

    Its key is an elliptic one, or `rsa` for who reads no other.
    """

    def __init__(
        self, folder: Path, name: str = "gpufleet-test-ca", names: Sequence[str] = (), *, rsa: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pair = Pair(folder / "ca.crt", folder / "ca.key")
        self._key: Key = self._known_key() or self._new_key(names, rsa=rsa)

    def _known_key(self) -> Key | None:
        if not (self.pair.certificate.exists() and self.pair.key.exists()):
            return None
        key = load_pem_private_key(self.pair.key.read_bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey | RSAPrivateKey)
        return key

    def _new_key(self, names: Sequence[str], *, rsa: bool) -> Key:
        key: Key = generate_rsa_key(65537, 2048) if rsa else generate_private_key(SECP256R1())
        self._key = key
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = _builder(self._name, self._name, key, names)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._write("ca", builder.add_extension(usage, critical=True), key)
        return key

    def issue(self, file: str, user: str, *, group: str = "", names: Sequence[str] = ()) -> Pair:
        """A certificate for `user` (common name) of `group` (organisation), good as a client and, with names, a server."""
        key = generate_private_key(SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = _builder(subject, self._name, key, names).add_extension(x509.ExtendedKeyUsage(both), critical=False)
        return self._write(file, builder, key)

    def key_pair(self, file: str) -> Pair:
        """For service-account tokens: a public key in the certificate's place. One that is there already stays."""
        known = Pair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        if known.key.exists():
            return known
        key = generate_private_key(SECP256R1())
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return self._files(file, public, key)

    def _write(self, file: str, builder: x509.CertificateBuilder, key: Key) -> Pair:
        return self._files(file, builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM), key)

    def _files(self, file: str, public: bytes, key: Key) -> Pair:
        pair = Pair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        pair.certificate.write_bytes(public)
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
        return pair


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, names: Sequence[str]) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + VALID)
    )
    if not names:
        return builder
    return builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)


def _name(text: str) -> x509.GeneralName:
    """An address when it reads as one, else a DNS name."""
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
