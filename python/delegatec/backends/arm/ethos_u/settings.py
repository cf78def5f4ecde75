# SPDX-License-Identifier: Apache-2.0
"""Settings of the Ethos-U backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from delegatec.backends.arm.ethos_u.accelerator import CHOICES, Accelerator, default_problems
from delegatec.backends.arm.ethos_u.configuration import Configuration
from delegatec.backends.arm.ethos_u.flags import Flags
from delegatec.backends.arm.settings import COMPLETE, Settings
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.backends.common.settings import Setting, SettingsCodec
from delegatec.delegation import CompileSpec
from delegatec.diagnostics import DelegatecError, Diagnostic


class Stage(Enum):
    """The content of a delegate."""

    COMMANDS = "commands"
    TOSA = "tosa"


@dataclass(frozen=True)
class EthosUSettings(Settings):
    """A user's settings.

    Attributes:
        specification: that of the accelerator.
        accelerator: the NPU.
        system: the name of a system in the configuration file; empty for the default of the family.
        memory_mode: the name of a memory mode in it; empty for the default of the family.
        configuration: the user's configuration file; empty for Vela's own.
        flags: further flags of Vela.
        stage: the content of a delegate.
    """

    specification: TosaSpecification = field(default=COMPLETE, init=False)
    accelerator: Accelerator = Accelerator.U55_128
    system: str = ""
    memory_mode: str = ""
    configuration: Configuration = field(default_factory=Configuration)
    flags: Flags = field(default_factory=Flags)
    stage: Stage = Stage.COMMANDS

    def __post_init__(self) -> None:
        object.__setattr__(self, "specification", self.accelerator.specification)

    @property
    def system_name(self) -> str:
        """The system, after defaults."""
        return self.system or CHOICES[self.accelerator.family].system

    @property
    def memory_mode_name(self) -> str:
        """The memory mode, after defaults."""
        return self.memory_mode or CHOICES[self.accelerator.family].memory_mode

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yields a problem and the valid values for each setting that conflicts with the others."""
        if self.configuration.text:
            yield from self.configuration.problems(self.system, self.memory_mode)
        else:
            yield from default_problems(self.accelerator, self.system, self.memory_mode)


class EthosUCodec(SettingsCodec[Settings]):
    """Also checks that settings fit each other."""

    def encode(self, options: Mapping[str, str]) -> list[CompileSpec]:
        """See `SettingsCodec.encode`."""
        try:
            return super().encode(options)
        except DelegatecError as error:
            raise DelegatecError([*error.diagnostics, *_unfit_names(options)]) from error

    def decode(self, compile_specs: Sequence[CompileSpec]) -> EthosUSettings:
        """See `SettingsCodec.decode`."""
        settings = super().decode(compile_specs)
        assert isinstance(settings, EthosUSettings)
        problems = _unfit(settings)
        if problems:
            raise DelegatecError(problems)
        return settings


def _unfit(settings: EthosUSettings) -> list[Diagnostic]:
    return [Diagnostic("DC402", problem, expected=expected) for problem, expected in settings.problems()]


def _unfit_names(options: Mapping[str, str]) -> list[Diagnostic]:
    """Returns the problems of names if other options are invalid."""
    try:
        configuration = Configuration.parse(options["config"])
    except ValueError:
        return []
    return _unfit(
        EthosUSettings(
            Accelerator(options["accelerator"]),
            options["system_config"],
            options["memory_mode"],
            configuration,
        )
    )


CODEC: Final = EthosUCodec(
    "EthosUBackend",
    EthosUSettings(),
    {
        "accelerator": Setting(
            "the NPU: its family, and its multiply-accumulate operations per cycle", key="target"
        ),
        "system": Setting(
            "the section System_Config.NAME of the configuration file: clocks and memories; by default "
            "Ethos_U55_High_End_Embedded, Ethos_U65_High_End or Ethos_U85_SYS_DRAM_Mid",
            option="system_config",
            parse=str.strip,
        ),
        "memory_mode": Setting(
            "the section Memory_Mode.NAME of the configuration file: which memory stores what; by default "
            "Shared_Sram on U55, Dedicated_Sram_384KB on U65, Sram_Only on U85",
            parse=str.strip,
        ),
        "configuration": Setting(
            "the configuration file of a board, with its systems and memory modes; by default Vela's own",
            option="config",
            parse=Configuration.parse,
            is_file=True,
        ),
        "flags": Setting(
            "further flags of Vela, separated by spaces, such as --optimise=Size",
            option="extra_flags",
            parse=Flags.parse,
        ),
        "stage": Setting(
            "commands compiles delegates to command streams of the NPU; tosa keeps their TOSA graphs, which "
            "run on the host"
        ),
    },
)
