# SPDX-License-Identifier: Apache-2.0
"""Options of Ethos-U programs: defaults, and every invalid combination."""

from __future__ import annotations

from pathlib import Path

import pytest

from delegatec.backends.arm.ethos_u.accelerator import Accelerator
from delegatec.backends.arm.ethos_u.backend import ETHOS_U
from delegatec.backends.arm.ethos_u.settings import EthosUSettings
from delegatec.diagnostics import DelegatecError

_BOARD = """
; a comment
[System_Config.Board]
core_clock=400e6
axi0_port=Sram
axi1_port=OffChipFlash

[Memory_Mode.Base]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0

[Memory_Mode.Small]
inherit=Memory_Mode.Base
arena_cache_size=262144
"""


_SOFTMAX = "--experimental-softmax-int16-neg-exp-range"


@pytest.fixture
def board(tmp_path: Path) -> str:
    path = tmp_path / "board.ini"
    path.write_text(_BOARD)
    return str(path)


def _settings(**options: str) -> EthosUSettings:
    settings = ETHOS_U.settings(ETHOS_U.compile_specs(options))
    assert isinstance(settings, EthosUSettings)
    return settings


def _problems(**options: str) -> list[tuple[str, str]]:
    with pytest.raises(DelegatecError) as raised:
        ETHOS_U.compile_specs(options)
    assert {each.code for each in raised.value.diagnostics} == {"DC402"}
    return [(each.message, each.expected) for each in raised.value.diagnostics]


@pytest.mark.parametrize(
    ("accelerator", "specification", "system", "memory_mode"),
    [
        ("ethos-u55-32", "TOSA-1.0+INT+cf+int16+int4+u55", "Ethos_U55_High_End_Embedded", "Shared_Sram"),
        ("ethos-u65-512", "TOSA-1.0+INT+cf+int16+int4+u65", "Ethos_U65_High_End", "Dedicated_Sram_384KB"),
        ("ethos-u85-2048", "TOSA-1.0+INT+cf+int16+int4+u85", "Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
    ],
)
def test_defaults_of_each_family(accelerator: str, specification: str, system: str, memory_mode: str) -> None:
    settings = _settings(accelerator=accelerator)
    assert (str(settings.specification), settings.system_name, settings.memory_mode_name) == (
        specification,
        system,
        memory_mode,
    )


def test_every_accelerator_is_an_option() -> None:
    assert ETHOS_U.options["accelerator"].values == tuple(each.value for each in Accelerator)
    assert {_settings(accelerator=each.value).accelerator for each in Accelerator} == {*Accelerator}


def test_names_that_do_not_fit() -> None:
    both = _problems(system_config="Ethos_U85_SYS_DRAM_Mid", memory_mode="Shared_Ram")
    assert both == [
        (
            "'Ethos_U85_SYS_DRAM_Mid' is not a system of ethos-u55-128 in Vela's configuration file",
            "Ethos_U55_Deep_Embedded or Ethos_U55_High_End_Embedded",
        ),
        (
            "'Shared_Ram' is not a memory mode in Vela's configuration file",
            "Sram_Only or Shared_Sram or Dedicated_Sram or Dedicated_Sram_256KB or Dedicated_Sram_384KB or "
            "Dedicated_Sram_512KB",
        ),
    ]
    ((message, _),) = _problems(system_config="Board")
    assert message == "'Board' is not a system in Vela's configuration file"
    ((message, expected),) = _problems(accelerator="ethos-u55-512")
    assert "cannot be 'ethos-u55-512'" in message and "ethos-u55-256" in expected


def test_a_configuration_file_is_part_of_the_settings(board: str) -> None:
    settings = _settings(config=board, system_config="Board", memory_mode="Small")
    assert "comment" not in settings.configuration.text
    assert settings.configuration.text.startswith("[System_Config.Board]\ncore_clock=400e6\n")
    assert (settings.system_name, settings.memory_mode_name) == ("Board", "Small")


def test_names_that_a_configuration_file_does_not_have(board: str, tmp_path: Path) -> None:
    assert _problems(config=board, memory_mode="Large") == [
        ("option 'system_config' is not set, and option 'config' replaces its default", "Board"),
        ("the configuration file has no section Memory_Mode.Large", "Base or Small"),
    ]
    wrong = tmp_path / "wrong.ini"
    wrong.write_text("[Memory_Mode.A]\ninherit=Memory_Mode.B\n[System_Config.S]\n")
    assert _problems(config=str(wrong), memory_mode="A", system_config="S") == [
        ("section Memory_Mode.A inherits 'Memory_Mode.B'", "another section of the file")
    ]


def test_areas_in_memories_that_cannot_store_them(board: str) -> None:
    path = Path(board)
    path.write_text(
        _BOARD
        + "[Memory_Mode.Wrong]\ninherit=Memory_Mode.Base\narena_mem_area=Axi1\nconst_mem_area=Axi0\n"
        + "[Memory_Mode.Sram]\nconst_mem_area=Axi0\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"
    )
    assert _settings(config=board, system_config="Board", memory_mode="Sram").memory_mode == "Sram"
    assert _problems(config=board, system_config="Board", memory_mode="Wrong") == [
        (
            "Memory_Mode.Wrong: const_mem_area is Sram of System_Config.Board",
            "Dram or OnChipFlash or OffChipFlash",
        ),
        ("Memory_Mode.Wrong: arena_mem_area is OffChipFlash of System_Config.Board", "Sram or Dram"),
    ]


def test_sections_that_inherit_each_other(tmp_path: Path) -> None:
    path = tmp_path / "board.ini"
    path.write_text(
        "[System_Config.S]\n[Memory_Mode.A]\ninherit=Memory_Mode.B\n[Memory_Mode.B]\ninherit=Memory_Mode.A\n"
    )
    found = [message for message, _ in _problems(config=str(path), system_config="S", memory_mode="A")]
    assert found == [f"section Memory_Mode.{a} inherits 'Memory_Mode.{b}'" for a, b in ("AB", "BA")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("key=value", "contains no section headers"), ("", "has no sections"), ("[A]\n[A]\n", "already exists")],
)
def test_files_that_are_not_configurations(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "board.ini"
    path.write_text(text)
    ((message, _),) = _problems(config=str(path))
    assert message.startswith("invalid value of option 'config' of EthosUBackend: ") and problem in message


def test_a_missing_file(tmp_path: Path) -> None:
    ((message, _),) = _problems(config=str(tmp_path / "none.ini"))
    assert "cannot be read: No such file or directory" in message


def test_memory_modes_of_systems_without_dram() -> None:
    ((message, expected),) = _problems(memory_mode="Dedicated_Sram")
    assert message == (
        "memory mode 'Dedicated_Sram' needs DRAM, which system 'Ethos_U55_High_End_Embedded' lacks"
    )
    assert expected == "Sram_Only or Shared_Sram"
    ((message, _),) = _problems(accelerator="ethos-u65-256", system_config="Ethos_U65_Embedded")
    assert message.startswith("memory mode 'Dedicated_Sram_384KB', the default, needs DRAM")
    assert _settings(accelerator="ethos-u85-256", memory_mode="Dedicated_Sram_512KB").memory_mode


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--optimise Size --arena-cache-size=1000", ("--optimise=Size", "--arena-cache-size=1000")),
        ("--disable-chaining --max-block-dependency 3", ("--disable-chaining", "--max-block-dependency=3")),
        ("--experimental-softmax-int16-neg-exp-range=8.5 ", (f"{_SOFTMAX}=8.5",)),
    ],
)
def test_flags(flags: str, words: tuple[str, ...]) -> None:
    assert _settings(extra_flags=flags).flags.words == words


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("--config=x.ini", "--config is determined by the option config"),
        ("--optimize=Size", "unknown flag '--optimize': did you mean '--optimise'?"),
        ("--verbose", "unknown flag '--verbose': expected one of --arena-cache-size, "),
        ("--optimise", "--optimise is one of Size, Performance, not ''"),
        ("--optimise=size", "--optimise is one of Size, Performance, not 'size'"),
        ("--arena-cache-size=-1", "--arena-cache-size needs an integer, not '-1'"),
        ("--experimental-softmax-int16-neg-exp-range=8.5.1", "needs a number, not '8.5.1'"),
        ("--experimental-softmax-int16-neg-exp-range=e", "needs a number, not 'e'"),
        ("--disable-chaining=1", "--disable-chaining has no value"),
        ("--optimise=Size --optimise Performance", "--optimise is set twice"),
        ("'", "No closing quotation"),
    ],
)
def test_flags_that_vela_would_reject(flags: str, problem: str) -> None:
    ((message, _),) = _problems(extra_flags=flags)
    assert problem in message


def test_all_problems_at_once() -> None:
    found = _problems(extra_flags="--foo --bar", system_config="Board", memory_mode="x")
    assert ["--foo" in found[0][0] and "--bar" in found[0][0], *(name for _, name in found[1:])] == [
        True,
        "Ethos_U55_Deep_Embedded or Ethos_U55_High_End_Embedded",
        "Sram_Only or Shared_Sram or Dedicated_Sram or Dedicated_Sram_256KB or Dedicated_Sram_384KB or "
        "Dedicated_Sram_512KB",
    ]
