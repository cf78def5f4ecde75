# SPDX-License-Identifier: Apache-2.0
"""Bazel's worker protocol in its protobuf form, without a protobuf library.

Field numbers are those of Bazel's src/main/protobuf/worker_protocol.proto; each message follows its length as
a varint. Unknown fields are skipped, as protobuf requires.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

_ARGUMENTS: Final = 1
_INPUTS: Final = 2
_PATH: Final = 1
_DIGEST: Final = 2
_REQUEST_ID: Final = 3
_CANCEL: Final = 4
_EXIT_CODE: Final = 1
_OUTPUT: Final = 2
_RESPONSE_REQUEST_ID: Final = 3

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5


class ProtocolError(Exception):
    """The bytes are not a valid request."""


@dataclass(frozen=True)
class WorkRequest:
    """One request.

    Attributes:
        arguments: the action's arguments; Bazel has expanded parameter files.
        inputs: path and digest of each input.
        request_id: 0 for a singleplex worker; returned with the response.
        cancel: cancels the request with this id.
    """

    arguments: tuple[str, ...] = ()
    inputs: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    request_id: int = 0
    cancel: bool = False


@dataclass(frozen=True)
class WorkResponse:
    """The response to a request: the action's exit code, and its output."""

    exit_code: int
    output: str
    request_id: int = 0


def read_request(file: BinaryIO) -> WorkRequest | None:
    """Reads the next request; returns None at the end of the stream.

    Args:
        file: a blocking stream; short reads are continued.

    Raises:
        ProtocolError: the stream ends within a request, or is invalid.
    """
    body = read_message(file)
    if body is None:
        return None
    arguments: list[str] = []
    inputs: list[tuple[str, bytes]] = []
    fields = {_REQUEST_ID: 0, _CANCEL: 0}
    for number, value in _fields(body):
        if number == _ARGUMENTS and isinstance(value, bytes):
            arguments.append(value.decode("utf-8", "surrogateescape"))
        elif number == _INPUTS and isinstance(value, bytes):
            parts = dict(_fields(value))
            path, digest = parts.get(_PATH, b""), parts.get(_DIGEST, b"")
            if isinstance(path, bytes) and isinstance(digest, bytes):
                inputs.append((path.decode("utf-8", "surrogateescape"), digest))
        elif number in fields and isinstance(value, int):
            fields[number] = value
    return WorkRequest(tuple(arguments), tuple(inputs), fields[_REQUEST_ID], bool(fields[_CANCEL]))


def read_message(file: BinaryIO) -> bytes | None:
    """Reads the bytes of the next message; otherwise as `read_request`."""
    size = _read_length(file)
    if size is None:
        return None
    body = b""
    while len(body) < size:
        part = file.read(size - len(body))
        if not part:
            raise ProtocolError("the stream ends within a request")
        body += part
    return body


def write_response(file: BinaryIO, response: WorkResponse) -> None:
    """Writes one response and flushes the stream."""
    output = response.output.encode("utf-8", "replace")
    body = b""
    if response.exit_code:
        body += _varint(_EXIT_CODE << 3 | _VARINT) + _varint(response.exit_code)
    if output:
        body += _varint(_OUTPUT << 3 | _LENGTH) + _varint(len(output)) + output
    if response.request_id:
        body += _varint(_RESPONSE_REQUEST_ID << 3 | _VARINT) + _varint(response.request_id)
    file.write(_varint(len(body)) + body)
    file.flush()


def _fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(body):
        key, position = _parse_varint(body, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _parse_varint(body, position)
            yield key >> 3, value
            continue
        if kind == _LENGTH:
            size, position = _parse_varint(body, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ProtocolError(f"unknown wire type {kind}")
        if position + size > len(body):
            raise ProtocolError("a field extends past its message")
        yield key >> 3, body[position : position + size]
        position += size


def _parse_varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(body) and shift < 70:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
    raise ProtocolError("unterminated varint")


def _read_length(file: BinaryIO) -> int | None:
    prefix = b""
    while not prefix or prefix[-1] >= 0x80:
        byte = file.read(1)
        if not byte and not prefix:
            return None
        if not byte or len(prefix) == 10:
            raise ProtocolError("the length of a request is unterminated")
        prefix += byte
    return _parse_varint(prefix, 0)[0]


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
