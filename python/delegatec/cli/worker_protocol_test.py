# SPDX-License-Identifier: Apache-2.0
"""Tests of worker_protocol."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegatec.cli.worker_protocol import ProtocolError, WorkResponse, read_request, write_response


class Trickle(io.RawIOBase):
    """A stream that returns one byte at a time, like a pipe."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._content.read(min(size, 1))


def varint(value: int) -> bytes:
    encoded = b""
    while value >= 0x80:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def string(field: int, text: str) -> bytes:
    content = text.encode()
    return varint(field << 3 | 2) + varint(len(content)) + content


def framed(body: bytes) -> bytes:
    return varint(len(body)) + body


@given(st.lists(st.text(max_size=300)), st.integers(0, 2**31 - 1), st.booleans())
def test_requests_are_read_in_any_pieces(arguments: list[str], number: int, cancel: bool) -> None:
    body = b"".join(string(1, argument) for argument in arguments)
    body += string(2, "\x0a\x04path") + varint(3 << 3) + varint(number) + varint(4 << 3) + varint(int(cancel))
    body += varint(5 << 3) + varint(10) + string(6, "sandbox") + varint(90 << 3 | 5) + b"1234"
    stream = Trickle(framed(body) + framed(b""))
    request = read_request(stream)  # type: ignore[arg-type]
    assert request is not None
    assert (list(request.arguments), request.request_id, request.cancel) == (arguments, number, cancel)
    empty = read_request(stream)  # type: ignore[arg-type]
    assert empty is not None
    assert (empty.arguments, empty.request_id, empty.cancel) == ((), 0, False)
    assert read_request(stream) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "content",
    [
        b"\x05\x0a",  # ends within a request
        b"\x80",  # ends within a length
        b"\xff" * 11,  # a length without an end
        framed(b"\x0a\x05ab"),  # a string that extends past its message
        framed(b"\x18"),  # a key without a value
        framed(b"\x0b"),  # a wire type that proto3 does not have
    ],
)
def test_damaged_request(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_request(io.BytesIO(content))


def test_response() -> None:
    stream = io.BytesIO()
    write_response(stream, WorkResponse(exit_code=70, output="wörk\n", request_id=300))
    body = b"\x08\x46" + b"\x12\x06" + "wörk\n".encode() + b"\x18\xac\x02"
    assert stream.getvalue() == framed(body)


def test_response_of_success_is_empty() -> None:
    stream = io.BytesIO()
    write_response(stream, WorkResponse(exit_code=0, output=""))
    assert stream.getvalue() == b"\0"
