"""Signing: who said it, and that nobody changed it on the way. Ed25519 (RFC 8032) by `cryptography`.

A node signs every request with its own key: method, path, time, nonce and the digest of the body. The server signs every answer with its
key, together with the nonce of the request, so that an old answer cannot be played again. Nodes pin the server's key when they join.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from pathlib import Path
from typing import Final, final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from laminar.core import atomic
from laminar.core.errors import LaminarError

REQUEST: Final = b"laminar grid request 1\n"
REPLY: Final = b"laminar grid reply 1\n"
NODE, TIME, NONCE, SIGNATURE = "Laminar-Node", "Laminar-Time", "Laminar-Nonce", "Laminar-Signature"
SPEAKS = "Laminar-Protocol"  # of a request: the protocol of whoever asks. Not signed: it is looked at before anything else is understood
MESSAGE = (
    "Laminar-Message"  # of a reply: its first so many bytes are a message, which is what is signed; what follows has its digests there
)


@final
class Key:
    """A private key and its public half."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = base64.b64encode(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()

    @classmethod
    def make(cls) -> Key:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def kept(cls, path: Path) -> Key:
        """The one in the file; a new one is made and kept there for its owner only, if there is none."""
        if not path.exists():
            key = cls.make()
            path.parent.mkdir(parents=True, exist_ok=True)
            raw = key._private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
            atomic.write_bytes(path, base64.b64encode(raw) + b"\n", mode=0o600)
        try:
            return cls(Ed25519PrivateKey.from_private_bytes(base64.b64decode(path.read_bytes().strip(), validate=True)))
        except (ValueError, binascii.Error) as error:
            raise LaminarError(
                "L502", f"{path} is no key of a grid: {error}", hint=f"move {path.name} away; a new key is a new node"
            ) from error

    def sign(self, message: bytes) -> str:
        return base64.b64encode(self._private.sign(message)).decode()


def node_id(public: str) -> str:
    return hashlib.sha256(base64.b64decode(public)).hexdigest()[:20]


def fingerprint(public: str) -> str:
    """A key as people compare it."""
    found = hashlib.sha256(base64.b64decode(public)).hexdigest()[:32]
    return ":".join(found[i : i + 4] for i in range(0, 32, 4))


@final
class Checker:
    """Public keys by their text: parsing one costs as much as a tenth of a check."""

    def __init__(self) -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}

    def good(self, public: str, signature: str, message: bytes) -> bool:
        try:
            key = self._keys.get(public)
            if key is None:
                key = self._keys[public] = Ed25519PublicKey.from_public_bytes(base64.b64decode(public, validate=True))
            key.verify(base64.b64decode(signature, validate=True), message)
        except (InvalidSignature, ValueError, binascii.Error):
            return False
        return True


def of_request(method: str, target: str, time: str, nonce: str, body_sha256: str) -> bytes:
    """The bytes that a node signs. `target`: path and query, as they stand in the request."""
    return REQUEST + "\n".join((method, target, time, nonce, body_sha256)).encode()


def of_reply(node: str, method: str, target: str, nonce: str, status: int, body_sha256: str) -> bytes:
    """The bytes that the server signs: whom it answers, and what."""
    return REPLY + f"{node}\n{method}\n{target}\n{nonce}\n{status}\n{body_sha256}".encode()


def nonce() -> str:
    return os.urandom(12).hex()
