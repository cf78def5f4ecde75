# SPDX-License-Identifier: Apache-2.0
"""Vela compiles the operators that we say it does, and our container has the bytes of the peer's."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import torch

from delegatec.backends.arm.capabilities.families import FAMILIES
from delegatec.backends.arm.capabilities.testing import blob
from delegatec.backends.arm.capabilities.testing.cases import CASES
from delegatec.backends.arm.ethos_u.accelerator import CHOICES, MEMORY_MODES, Accelerator
from delegatec.backends.arm.ethos_u.backend import ETHOS_U
from delegatec.backends.arm.ethos_u.commands import read_commands
from delegatec.backends.arm.ethos_u.configuration import Configuration
from delegatec.backends.arm.ethos_u.container import read_container, write_container
from delegatec.backends.arm.ethos_u.settings import EthosUSettings
from delegatec.backends.arm.ethos_u.vela import VELA, compile_graph
from delegatec.backends.common.testing import compile_module
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError
from delegatec.lowering import lower
from delegatec.program import ProgramOptions
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized
from tests.oracle.vela_peer import environment, peer_container

_CASES_MODULE: Final = Path(__file__).with_name("vela_cases.py")
_DEFAULT_INI: Final = "config_files/Arm/vela.ini"
(_STRIDED,) = (each for each in CASES if each.name == "CONV2D" and each.attributes["stride"] == [5, 1])
_IMAGE: Final = 0x000
_RESULT: Final = 0x010
"""Commands with the address of the first tile."""


class Block(torch.nn.Module):
    """Arithmetic of int32, on every family."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x + y) * x, (x - y).abs()


_ARGS: Final = (
    torch.arange(240, dtype=torch.int32).reshape(2, 4, 5, 6),
    torch.full((2, 4, 5, 6), 7, dtype=torch.int32),
)


def _compiled(**options: str) -> bytes:
    compiled = compile_module("ethos_u", Block(), _ARGS, ETHOS_U.preserved_operators(), **options)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    return compiled.delegates[0].blob_bytes()


@pytest.mark.parametrize("is_channels_last", [False, True])
def test_a_note_on_an_image_that_the_npu_transposes(is_channels_last: bool) -> None:
    """Of the input of the method, which a conversion to int8 follows."""
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2, padding=1),
        torch.nn.ReLU6(),
        torch.nn.Conv2d(16, 32, 3, padding=1),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    )
    methods = quantized(network, (torch.rand(1, 3, 64, 64),), Settings()).methods
    layout = ProgramOptions(channels_last_inputs=is_channels_last)
    notes = lower(methods, "ethos_u", program_options=layout).notes.get("forward", ())
    assert [note.name for note in notes] == ([] if is_channels_last else ["transposed-input"])
    for note in notes:
        assert note.message.startswith("the NPU transposes the input input: ")
        percent, total = map(float, re.findall(r"([\d.]+) % of (\d+) cycles", note.message)[0])
        assert 1 < percent < 50 and total > 1000
        assert "channels_last_inputs = True" in note.help


def _sorted(x: torch.Tensor) -> torch.Tensor:
    return x.sort().values


def _sorted_between_delegates(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2).topk(64, largest=False).values


@pytest.mark.parametrize("function", [_sorted, _sorted_between_delegates])
def test_no_note_on_a_value_that_the_program_computes(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    class Sorted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Conv2d(3, 16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(function(x))

    methods = quantized(Sorted(), (torch.rand(1, 3, 64, 64),), Settings()).methods
    assert lower(methods, "ethos_u").notes == {}


@pytest.mark.parametrize("shape", [(48, 64), (1, 48, 64), (1, 32, 32, 32)], ids=str)
def test_no_note_on_another_transposition(shape: tuple[int, ...]) -> None:
    class Transposed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.transpose(-1, -2) * 1.5)

    lowered = lower(quantized(Transposed(), (torch.randn(shape),), Settings()).methods, "ethos_u")
    assert lowered.notes == {}
    assert lowered.reports["forward"].delegates


def test_names_are_those_of_the_configuration_file() -> None:
    text = (VELA.directory() / _DEFAULT_INI).read_text()
    sections = [line[1:-1] for line in text.splitlines() if line.startswith("[")]
    systems = [system for choice in CHOICES.values() for system in choice.systems]
    names = [
        *(f"System_Config.{each}" for each in systems),
        *(f"Memory_Mode.{each}" for each in MEMORY_MODES),
    ]
    assert sorted(names) == sorted(sections)


def _compiles(settings: EthosUSettings) -> bool:
    try:
        compiled, _ = compile_graph(blob(_STRIDED), settings)
    except DelegatecError as error:
        assert [each.code for each in error.diagnostics] == ["DC431"]
        return False
    assert read_container(memoryview(write_container(compiled))) == compiled
    return True


@pytest.mark.parametrize("accelerator", Accelerator, ids=lambda each: each.value)
def test_every_accelerator(accelerator: Accelerator) -> None:
    assert _compiles(EthosUSettings(accelerator=accelerator))


@pytest.mark.parametrize(
    ("accelerator", "system"),
    [
        (accelerator, system)
        for accelerator in (Accelerator.U55_128, Accelerator.U65_256, Accelerator.U85_256)
        for system in CHOICES[accelerator.family].systems
    ],
)
def test_memory_modes_of_every_system(accelerator: Accelerator, system: str) -> None:
    for mode in ("", "Dedicated_Sram"):
        settings = EthosUSettings(accelerator=accelerator, system=system, memory_mode=mode)
        assert _compiles(settings) == (not [*settings.problems()]), mode


@pytest.mark.parametrize("family", FAMILIES)
def test_each_side_of_each_limit(family: str, tmp_path: Path) -> None:
    lines = []
    for index, case in enumerate(CASES):
        path = tmp_path / f"{index}.tosa"
        path.write_bytes(join(blob(case)))
        lines.append(f"{family} {path}\n")
    command = [sys.executable, str(_CASES_MODULE), str(VELA.directory() / _DEFAULT_INI)]
    result = subprocess.run(
        command, input="".join(lines), env=environment(), text=True, capture_output=True, check=True
    )
    verdicts = result.stdout.split("\n")[:-1]
    wrong = [
        f"{case}: {found or 'accepted'}"
        for case, found in zip(CASES, verdicts, strict=True)
        if bool(found) != (case.verdicts[family == "u85"] == "no")
    ]
    assert wrong == []


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_containers_have_the_bytes_of_the_peer(accelerator: str, tmp_path: Path) -> None:
    ours = _compiled(accelerator=accelerator)
    settings = EthosUSettings(accelerator=Accelerator(accelerator))
    assert ours == peer_container(_compiled(accelerator=accelerator, stage="tosa"), settings, tmp_path)
    compiled = read_container(memoryview(ours))
    assert [port.shape for port in compiled.inputs] == [(1, 1, 2, 4, 5, 6)] * 2
    assert "4 ELEMENTWISE" in ETHOS_U.describe(memoryview(ours))


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
def test_greater_strides_become_convolutions_at_each_position(accelerator: str) -> None:
    compiled, _ = compile_graph(blob(_STRIDED), EthosUSettings(accelerator=Accelerator(accelerator)))
    found: set[tuple[int, int]] = set()
    addresses = {_IMAGE: 0, _RESULT: 0}
    for command in read_commands(compiled.commands).commands:
        if command.payload is not None and command.code in addresses:
            addresses[command.code] = command.payload
        elif command.operation == "CONV":
            found.add((addresses[_IMAGE], addresses[_RESULT]))
    wanted = {
        (((n * 18 + 5 * y) * 18 + x) * 8, ((n * 4 + y) * 16 + x) * 4)
        for n in range(3)
        for y in range(4)
        for x in range(16)
    }
    first, base = min(found)
    assert {(image - first, result - base) for image, result in found} == wanted


def test_the_bytes_do_not_depend_on_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _compiled()
    for name, seed in (("one", "1"), ("another/directory", "2")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        monkeypatch.chdir(folder)
        assert _compiled() == first


def test_estimates_are_those_of_the_summary() -> None:
    compiled = compile_module("ethos_u", Block(), _ARGS, ETHOS_U.preserved_operators())
    estimates = compiled.delegates[0].estimates
    assert estimates is not None
    totals = estimates.totals
    assert sum(layer.figures["cycles"] for layer in estimates.layers) == totals["cycles"] > 0
    assert totals["sram_bytes"] == read_container(memoryview(compiled.delegates[0].blob_bytes())).scratch
    assert totals["operators"] == len(estimates.layers) == 4
    assert {layer.name for layer in estimates.layers} == {*compiled.delegates[0].debug_handle_map}


def test_a_board_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "board.ini"
    text = (VELA.directory() / _DEFAULT_INI).read_text()
    path.write_text(text.replace("Ethos_U55_High_End_Embedded", "Board").replace("Shared_Sram", "Mine"))
    configuration = Configuration.parse(str(path)).text
    assert "[System_Config.Board]" in configuration
    assert _compiled(config=str(path), system_config="Board", memory_mode="Mine") == _compiled()


def test_vela_says_what_is_wrong_with_a_board(tmp_path: Path) -> None:
    path = tmp_path / "board.ini"
    path.write_text("[System_Config.Board]\naxi0_port=Sramm\n[Memory_Mode.Mine]\n")
    with pytest.raises(DelegatecError) as raised:
        _compiled(config=str(path), system_config="Board", memory_mode="Mine")
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "DC431"
    assert "Sramm" in diagnostic.message
    assert "Traceback" not in diagnostic.message and "File" not in diagnostic.message
