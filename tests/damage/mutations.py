# SPDX-License-Identifier: Apache-2.0
"""Mutations of files: functions of their bytes and a source of random numbers, for each form of file."""

from __future__ import annotations

import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Final

from delegatec.frontend.pt2.testing import mutated_json

Mutation = Callable[[bytes, random.Random], bytes]

_WORDS: Final = (0, 1, 2, 3, 4, 8, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1)
# torch writes names of archives and shapes in it.
_MAGIC_OF_NPY: Final = b"\x93NUMPY"
_LENGTH: Final = struct.Struct("<Q")


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Changes bits, bytes, 32-bit or 64-bit words, or the position or length of a range."""
    if not data:
        return bytes([rng.randrange(256)])
    changed = bytearray(data)
    at = rng.randrange(len(changed))
    if rng.random() < 0.5:  # most structure is at the beginning
        at = rng.randrange(min(len(changed), 4096))
    match rng.randrange(9):
        case 0:
            changed[at] ^= 1 << rng.randrange(8)
        case 1:
            changed[at] = rng.choice((0, 1, 255, rng.randrange(256)))
        case 2 | 3 | 4 if len(changed) >= 8:
            at = min(at, len(changed) - 4) & ~3
            near = struct.unpack_from("<I", changed, at)[0] + rng.choice((-4, -1, 1, 4))
            struct.pack_into("<I", changed, at, rng.choice((*_WORDS, len(changed), near)) % 2**32)
        case 5 if len(changed) >= 16:
            at = min(at, len(changed) - 8) & ~7
            struct.pack_into("<Q", changed, at, rng.choice((2**63, 2**64 - 1, 2**40, len(changed))))
        case 6:
            del changed[at : at + rng.choice((1, 4, 64, len(changed)))]
        case 7:
            source = rng.randrange(len(changed))
            changed[at:at] = changed[source : source + rng.choice((1, 4, 64))]
        case _:
            source, size = rng.randrange(len(changed)), rng.choice((4, 16, 64))
            block = changed[source : source + size]
            changed[at : at + len(block)] = block
    return bytes(changed)


def mutated_document(data: bytes, rng: random.Random) -> bytes:
    """Changes the values or the structure of a JSON document; seldom its bytes."""
    try:
        return mutated_bytes(data, rng) if rng.random() < 0.1 else mutated_json(data, rng)
    except (ValueError, RecursionError):
        return mutated_bytes(data, rng)


def mutated_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Changes the header of a .safetensors file, with the right length, or its bytes."""
    size = _LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else 0
    header = data[_LENGTH.size : _LENGTH.size + size]
    if rng.random() < 0.3 or not header:
        return mutated_bytes(data, rng)
    changed = mutated_document(header, rng)
    return _LENGTH.pack(len(changed)) + changed + data[_LENGTH.size + size :]


def mutated_npy(data: bytes, rng: random.Random) -> bytes:
    """Changes a character of the header of a .npy file, which is a Python literal, or its bytes."""
    if rng.random() < 0.3 or not data.startswith(_MAGIC_OF_NPY) or len(data) < 12:
        return mutated_bytes(data, rng)
    begin, size = 10, struct.unpack_from("<H", data, 8)[0]
    header = bytearray(data[begin : begin + size])
    for _ in range(rng.choice((1, 2, 4))):
        if header:
            header[rng.randrange(len(header))] = rng.choice(b"0123456789-(),':{}[]<>=|?bcefiuOSUVTrue L\\\n")
    return data[:begin] + bytes(header) + data[begin + size :]


def mutated_archive(data: bytes, rng: random.Random) -> bytes:
    """Changes a member of a .pt2, with valid checksums, or the bytes of the file."""
    content = _members(data)
    if not content or rng.random() < 0.1:
        return mutated_bytes(data, rng)
    documents = [name for name in content if name.endswith(".json")]
    programs = [name for name in documents if "/models/" in name]
    groups = [group for group in (programs, programs, programs, documents, list(content)) if group]
    name = rng.choice(rng.choice(groups))
    kind = rng.random()
    if kind < 0.02:
        del content[name]
    elif kind < 0.04:
        content[name + rng.choice(("", "2", "/", "\ud7ff"))] = content[rng.choice(list(content))]
    else:
        change = mutated_document if name.endswith(".json") else mutated_bytes
        content[name] = change(content[name], rng)
    return _archive(content)


def _members(data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:  # noqa: BLE001 - zipfile raises many kinds of exceptions for damaged files
        return {}


def _archive(content: dict[str, bytes]) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, member in content.items():
            archive.writestr(zipfile.ZipInfo(name), member)
    return file.getvalue()


def edits(rng: random.Random) -> Iterator[int]:
    """Yields the seeds of some edits of a file."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        yield rng.randrange(2**32)
