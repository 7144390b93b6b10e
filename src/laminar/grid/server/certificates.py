"""Certificates: an authority of the grid's own, and a certificate for its server, made when they are first needed.

Nodes are given `ca.pem` with the join command. For a public address a certificate of a public authority is better (--certificate).
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from laminar.core import atomic
from laminar.core.errors import LaminarError

YEARS: Final = 10
_DAYS: Final = 825  # of the server's own; more is refused by some systems


def check_certificate(certificate: Path, key: Path) -> None:
    """L008 where a server could not use them: before anything is begun with them."""
    for option, path in (("--certificate", certificate), ("--private-key", key)):
        if not path.is_file():
            raise LaminarError(
                "L008", f"{option} {path}: there is no such file", hint="give files in PEM, or --tls for an authority of your own"
            )
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise LaminarError(
            "L008",
            f"--certificate {certificate} and --private-key {key} cannot be used: {error.strerror or error}",
            hint="both are PEM, and the key is that of the certificate; --tls makes an authority of your own",
        ) from error


def own_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """Certificate and key of the server; the authority beside them."""
    authority, authority_key = folder / "ca.pem", folder / "ca-key.pem"
    if not authority.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Laminar grid authority")])
        made = _builder(name, name, key.public_key(), 365 * YEARS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = made.add_extension(usage, critical=True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        _write_key(authority_key, key)
        atomic.write_bytes(authority, made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    signer = serialization.load_pem_private_key(authority_key.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:60] or "grid")])
    made = _builder(subject, issuer.subject, key.public_key(), _DAYS)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    known = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known), critical=False)
    _write_key(folder / "key.pem", key)
    chain = made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    atomic.write_bytes(folder / "cert.pem", chain)
    return folder / "cert.pem", folder / "key.pem"


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _names(host: str) -> list[x509.GeneralName]:
    """All by which this machine may be called."""
    words = {host, "localhost", socket.gethostname(), socket.getfqdn(), "127.0.0.1", "::1"}
    if host in ("0.0.0.0", "::", ""):
        words |= {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)}
    found: list[x509.GeneralName] = []
    for word in sorted(word for word in words if word and word not in ("0.0.0.0", "::")):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(word)))
        except ValueError:
            found.append(x509.DNSName(word))
    return found


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8
    atomic.write_bytes(path, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()), mode=0o600)
