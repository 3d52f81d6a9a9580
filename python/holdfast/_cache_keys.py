"""Keys of a cache as bytes, alike for keys that are equal."""

from __future__ import annotations

import hashlib
import pickle
import pickletools
from typing import Any

_LONGEST = 400  # bytes of a key that names its entry itself; a longer one is named by its hash


def encode(key: Any) -> bytes:
    """The bytes of a key. True is 1, and a float that is an integer is that integer, as for a dict of Python."""
    kind = type(key)
    if kind is str:
        return b"s" + str.encode(key)
    if kind is bytes:
        return b"b" + bytes(key)
    if kind is bool or kind is int:
        return b"i%d" % key
    if kind is float:
        return b"i%d" % key if key.is_integer() else b"f" + repr(key).encode()
    if key is None:
        return b"n"
    if kind is tuple:
        parts = [encode(each) for each in key]
        return b"t" + b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return b"p" + pickletools.optimize(pickle.dumps(key, protocol=5))


def decode_key(stored: bytes) -> Any:
    """The key that encode() was given, in the form that equal keys have."""
    kind, content = stored[:1], stored[1:]
    if kind == b"s":
        return content.decode()
    if kind == b"b":
        return content
    if kind == b"i":
        return int(content)
    if kind == b"f":
        return float(content)
    if kind == b"n":
        return None
    if kind == b"t":
        parts = []
        while content:
            length, _, rest = content.partition(b":")
            parts.append(decode_key(rest[: int(length)]))
            content = rest[int(length) :]
        return tuple(parts)
    return pickle.loads(content)


def identity_of(key: Any) -> tuple[bytes, bytes]:
    """What names the entry of a key, and the key's bytes."""
    encoded = encode(key)
    if len(encoded) <= _LONGEST:
        return encoded, encoded
    return b"h" + hashlib.blake2b(encoded, digest_size=32).digest(), encoded
