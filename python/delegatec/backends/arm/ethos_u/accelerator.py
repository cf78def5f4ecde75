# SPDX-License-Identifier: Apache-2.0
"""Ethos-U accelerators, and the names of systems and memory modes in Vela's own configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from delegatec.backends.arm.specification import TosaSpecification


class Accelerator(Enum):
    """An NPU and its multiply-accumulate operations per cycle."""

    U55_32 = "ethos-u55-32"
    U55_64 = "ethos-u55-64"
    U55_128 = "ethos-u55-128"
    U55_256 = "ethos-u55-256"
    U65_256 = "ethos-u65-256"
    U65_512 = "ethos-u65-512"
    U85_128 = "ethos-u85-128"
    U85_256 = "ethos-u85-256"
    U85_512 = "ethos-u85-512"
    U85_1024 = "ethos-u85-1024"
    U85_2048 = "ethos-u85-2048"

    @property
    def family(self) -> str:
        """The mark of its family: "u55", "u65" or "u85"."""
        return self.value.split("-")[1]

    @property
    def specification(self) -> TosaSpecification:
        """The TOSA graphs that Vela compiles for it."""
        return _SPECIFICATIONS[self.family]


@dataclass(frozen=True)
class Choice:
    """The systems of a family in Vela's configuration file, and the defaults of a program for it."""

    systems: tuple[str, ...]
    system: str
    memory_mode: str


_SPECIFICATIONS: Final = {
    family: TosaSpecification.parse(f"TOSA-1.0+INT+int16+int4+cf+{family}")
    for family in ("u55", "u65", "u85")
}
MEMORY_MODES: Final = (
    "Sram_Only",
    "Shared_Sram",
    "Dedicated_Sram",
    "Dedicated_Sram_256KB",
    "Dedicated_Sram_384KB",
    "Dedicated_Sram_512KB",
)
"""In Vela's configuration file."""
DRAM_MODES: Final = tuple(each for each in MEMORY_MODES if each.startswith("Dedicated_Sram"))
"""Those that store activations in DRAM."""
SYSTEMS_WITHOUT_DRAM: Final = (
    "Ethos_U55_Deep_Embedded",
    "Ethos_U55_High_End_Embedded",
    "Ethos_U65_Embedded",
    "Ethos_U85_SYS_Flash_Low",
    "Ethos_U85_SYS_Flash_High",
)
"""Their second memory is flash."""
CHOICES: Final[Mapping[str, Choice]] = {
    "u55": Choice(
        ("Ethos_U55_Deep_Embedded", "Ethos_U55_High_End_Embedded"),
        "Ethos_U55_High_End_Embedded",
        "Shared_Sram",
    ),
    "u65": Choice(
        ("Ethos_U65_Embedded", "Ethos_U65_Mid_End", "Ethos_U65_High_End", "Ethos_U65_Client_Server"),
        "Ethos_U65_High_End",
        "Dedicated_Sram_384KB",
    ),
    "u85": Choice(
        (
            "Ethos_U85_SYS_Flash_Low",
            "Ethos_U85_SYS_Flash_High",
            "Ethos_U85_SYS_DRAM_Low",
            "Ethos_U85_SYS_DRAM_Mid",
            "Ethos_U85_SYS_DRAM_High",
        ),
        "Ethos_U85_SYS_DRAM_Mid",
        "Sram_Only",
    ),
}
"""Mark of a family -> its systems, and the defaults, which are those of ExecuTorch's compiler."""


def default_problems(accelerator: Accelerator, system: str, memory_mode: str) -> Iterator[tuple[str, str]]:
    """Yields a problem and the valid names for each name that does not exist or fit, by Vela's own file.

    Args:
        accelerator: of the program.
        system: the name of a system; empty for the default.
        memory_mode: the name of a memory mode; empty for the default.
    """
    choice = CHOICES[accelerator.family]
    systems = choice.systems
    if system and system not in systems:
        known = [each for choice in CHOICES.values() for each in choice.systems]
        what = f"is not a system of {accelerator.value}" if system in known else "is not a system"
        yield f"{system!r} {what} in Vela's configuration file", " or ".join(systems)
    if memory_mode and memory_mode not in MEMORY_MODES:
        yield f"{memory_mode!r} is not a memory mode in Vela's configuration file", " or ".join(MEMORY_MODES)
    chosen, mode = system or choice.system, memory_mode or choice.memory_mode
    if chosen in systems and chosen in SYSTEMS_WITHOUT_DRAM and mode in DRAM_MODES:
        default = "" if memory_mode else ", the default,"
        others = [each for each in MEMORY_MODES if each not in DRAM_MODES]
        yield f"memory mode {mode!r}{default} needs DRAM, which system {chosen!r} lacks", " or ".join(others)
