# SPDX-License-Identifier: Apache-2.0
"""Tests of the worker: in a separate process, with a command for tests."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

SERVER = """
import os, signal, sys, time
from delegatec.cli import worker
from delegatec.cli.failures import report_failure
from delegatec.cli.supervisor import ChildKilledError
from delegatec.diagnostics import DelegatecError

seen = []

def run(arguments, execute):
    try:
        return execute(lambda: verb(arguments))
    except (DelegatecError, ChildKilledError) as error:
        return report_failure(error, "", str)

def verb(arguments):
    seen.extend(arguments)
    print("out", *seen)
    print("err", file=sys.stderr)
    os.write(1, b"fd\\n")
    for argument in arguments:
        if argument == "raise":
            raise KeyError("lost")
        if argument == "exit":
            sys.exit(3)
        if argument == "leave":
            os._exit(0)
        if argument == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if argument == "read":
            print(repr(sys.stdin.read()))
        if argument.startswith("sleep"):
            time.sleep(60)
        if argument.startswith("code"):
            return int(argument[4:])
    return 0

def warm_up():
    print("warm")

sys.exit(worker.serve(run, warm_up))
"""


class Worker:
    """A worker process, and requests like Bazel's."""

    def __init__(self) -> None:
        environment = dict(os.environ, PYTHONPATH=":".join(path for path in sys.path if path))
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, *arguments: str, tail: bytes = b"") -> None:
        body = b"".join(b"\x0a" + bytes([len(text)]) + text.encode() for text in arguments) + tail
        self.stdin.write(bytes([len(body)]) + body)
        self.stdin.flush()

    def receive(self) -> tuple[int, str, int]:
        """Exit code, output and request id of a response."""
        stdout = self.process.stdout
        assert stdout is not None
        size = shift = 0
        while True:
            (byte,) = stdout.read(1)
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return parse_response(stdout.read(size))

    def ask(self, *arguments: str) -> tuple[int, str]:
        self.send(*arguments)
        code, output, _ = self.receive()
        return code, output


def parse_response(body: bytes) -> tuple[int, str, int]:
    def number(position: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = body[position]
            value |= (byte & 0x7F) << shift
            shift, position = shift + 7, position + 1
            if byte < 0x80:
                return value, position

    fields: dict[int, int | bytes] = {1: 0, 2: b"", 3: 0}
    position = 0
    while position < len(body):
        key, position = number(position)
        value, position = number(position)
        fields[key >> 3] = value
        if key & 7 == 2:
            fields[key >> 3] = body[position : position + value]
            position += value
    code, output, request = fields[1], fields[2], fields[3]
    assert isinstance(code, int) and isinstance(output, bytes) and isinstance(request, int)
    return code, output.decode(), request


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.process.kill()
    worker.process.wait()
    for stream in (worker.process.stdin, worker.process.stdout, worker.process.stderr):
        assert stream is not None
        stream.close()


def test_output_of_all_kinds_is_in_the_response(worker: Worker) -> None:
    code, output = worker.ask("a")
    assert code == 0
    assert sorted(output.splitlines()) == ["err", "fd", "out a"]


def test_requests_are_independent(worker: Worker) -> None:
    worker.ask("a", "b")
    assert "out c\n" in worker.ask("c")[1]


@pytest.mark.parametrize(
    ("argument", "code", "words"),
    [
        ("code1", 1, ""),
        ("raise", 70, "KeyError: 'lost'"),
        ("exit", 70, "SystemExit"),
        ("crash", 70, "killed by SIGSEGV"),
        ("leave", 1, "error DC005: the model or a plug-in ended the compiler's process, with exit code 0"),
    ],
)
def test_failures_are_answered_and_survived(worker: Worker, argument: str, code: int, words: str) -> None:
    got, output = worker.ask(argument)
    assert got == code
    assert words in output
    assert worker.ask("next")[0] == 0


def test_requests_do_not_read_the_protocol(worker: Worker) -> None:
    assert "''" in worker.ask("read")[1]
    assert worker.ask("next")[0] == 0


def test_request_id_comes_back_and_cancelling_is_tolerated(worker: Worker) -> None:
    worker.send("a", tail=b"\x18\x07")
    assert worker.receive()[2] == 7
    worker.send(tail=b"\x18\x07\x20\x01")
    worker.send("b", tail=b"\x18\x08")
    assert worker.receive()[2] == 8


def test_requests_that_arrive_together_are_answered_in_order(worker: Worker) -> None:
    for number in range(1, 6):
        worker.send(f"n{number}", tail=b"\x18" + bytes([number]))
    assert [worker.receive()[2] for _ in range(5)] == [1, 2, 3, 4, 5]


def test_end_of_requests(worker: Worker) -> None:
    worker.ask("a")
    worker.stdin.close()
    assert worker.process.wait(timeout=30) == 0


def test_noise_instead_of_requests(worker: Worker) -> None:
    worker.stdin.write(b"\x03abc")
    worker.stdin.close()
    assert worker.process.wait(timeout=30) == 1


def test_child_dies_with_the_worker(worker: Worker) -> None:
    worker.send("sleep")
    children: Sequence[int] = ()
    while not children and worker.process.poll() is None:
        children = children_of(worker.process.pid)
    worker.process.send_signal(signal.SIGKILL)
    worker.process.wait()
    for child in children:
        wait_for_end(child)


def children_of(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 20)[0], "the child goes on without its worker"
    finally:
        os.close(descriptor)
