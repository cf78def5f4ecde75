# SPDX-License-Identifier: Apache-2.0
"""Settings of an Arm delegate, as a builder with the names of the Arm design's.

`spec = ArmCompileSpecBuilder().ethosu_compile_spec("ethos-u55-128").build()`, and then
`delegatec.lower(methods, spec.backend, spec.options)`; after `set_permute_memory_format` with
`program_options=delegatec.program.ProgramOptions(**spec.layout)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NoReturn

from delegatec.backends.arm.backend import TOSA, ArmBackend
from delegatec.backends.arm.ethos_u.backend import ETHOS_U
from delegatec.backends.arm.vgf.backend import VGF
from delegatec.delegation import CompileSpec
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.arguments import check_items, check_types

_VELAS_OWN: Final = "Arm/vela.ini"
_CHANNELS_LAST: Final = ("channels_last_inputs", "channels_last_outputs")


@dataclass(frozen=True)
class ArmCompileSpec:
    """The settings of a delegate.

    Attributes:
        backend: name of the backend.
        options: the options that are set.
        layout: fields of `ProgramOptions` that are set.
        compile_specs: the part of them that a delegate stores.
    """

    backend: str
    options: Mapping[str, str]
    layout: Mapping[str, bool]
    compile_specs: tuple[CompileSpec, ...] = field(repr=False)


class ArmCompileSpecBuilder:
    """Collects the settings of a delegate. A builder is for one device."""

    def __init__(self) -> None:
        self._built: ArmCompileSpec | None = None
        self._is_channels_last = False

    def ethosu_compile_spec(
        self,
        config: str,
        system_config: str | None = None,
        memory_mode: str | None = None,
        extra_flags: str | Sequence[str] | None = None,
        config_ini: str = _VELAS_OWN,
    ) -> ArmCompileSpecBuilder:
        """Chooses an Ethos-U.

        Args:
            config: the accelerator, such as "ethos-u55-128"; letters of any case.
            system_config: the name of a system in the configuration file, by default one of the family.
            memory_mode: the name of a memory mode in it, by default one of the family.
            extra_flags: further flags of Vela.
            config_ini: the path of a configuration file, or Vela's own.

        Raises:
            DelegatecError: DC402 for each invalid value, and values that do not fit each other.
        """
        flags = extra_flags or ()
        texts = {
            "config": config,
            "system_config": system_config or "",
            "memory_mode": memory_mode or "",
            "config_ini": config_ini,
        }
        name = "ethosu_compile_spec"
        check_types(name, {key: (value, str, "a string") for key, value in texts.items()})
        if not isinstance(flags, str):
            check_items(name, "extra_flags", flags, (list, tuple), str, "a string, or a list of strings")
            flags = " ".join(flags)
        options = {
            "accelerator": config.lower(),
            "config": "" if config_ini == _VELAS_OWN else config_ini,
            "extra_flags": flags,
            "memory_mode": texts["memory_mode"],
            "system_config": texts["system_config"],
        }
        return self._choose(ETHOS_U, options)

    def tosa_compile_spec(self, tosa_spec: str) -> ArmCompileSpecBuilder:
        """Chooses graphs of TOSA.

        Args:
            tosa_spec: a specification, such as "TOSA-1.0+INT"; letters of any case.

        Raises:
            DelegatecError: DC402 with what is wrong with it.
        """
        return self._choose(TOSA, {"specification": tosa_spec})

    def vgf_compile_spec(self, tosa_spec: str = "") -> ArmCompileSpecBuilder:
        """Chooses VGF.

        Args:
            tosa_spec: the operators that the device supports, by default those of the backend.

        Raises:
            DelegatecError: DC402 with what is wrong with it.
        """
        return self._choose(VGF, {"specification": tosa_spec} if tosa_spec else {})

    def dump_intermediate_artifacts_to(self, output_path: str | None) -> ArmCompileSpecBuilder:
        """Accepts None alone: a delegate would store the path, and graphs can be extracted at any time.

        Raises:
            DelegatecError: DC402 for a path.
        """
        if output_path is not None:
            _refuse("a directory for graphs", f"call delegatec.extract(lowered, {str(output_path)!r}) later")
        return self

    def set_permute_memory_format(self, set_nhwc_format: bool = True) -> ArmCompileSpecBuilder:
        """Chooses the layout of inputs and outputs with four dimensions.

        Args:
            set_nhwc_format: whether all are channels-last; if not, they have the layout of the model's.
        """
        self._is_channels_last = set_nhwc_format
        return self

    def set_quantize_io(self, quantize_io: bool = False) -> ArmCompileSpecBuilder:
        """Accepts False alone: the model has quantized inputs and outputs, or has not.

        Raises:
            DelegatecError: DC402 for True.
        """
        if quantize_io:
            _refuse(
                "quantized inputs and outputs",
                "they are part of the model: quantize it with quantize_io, or call "
                "delegatec.quantize.boundary.quantize_boundary on the result of convert_pt2e",
            )
        return self

    def build(self) -> ArmCompileSpec:
        """Returns the settings.

        Raises:
            DelegatecError: DC402; no device is chosen.
        """
        if self._built is None:
            _refuse("no device", "call ethosu_compile_spec, tosa_compile_spec or vgf_compile_spec first")
        layout = dict.fromkeys(_CHANNELS_LAST, True) if self._is_channels_last else {}
        return replace(self._built, layout=MappingProxyType(layout))

    def _choose(self, backend: ArmBackend, options: Mapping[str, str]) -> ArmCompileSpecBuilder:
        if self._built is not None:
            _refuse("two devices", "use one builder for each")
        specs = tuple(backend.compile_specs(options))
        chosen = {key: value for key, value in options.items() if value}
        self._built = ArmCompileSpec(backend.name, MappingProxyType(chosen), MappingProxyType({}), specs)
        return self


def ethosu_compile_spec(
    config: str,
    system_config: str | None = None,
    memory_mode: str | None = None,
    extra_flags: str | Sequence[str] | None = None,
    config_ini: str = _VELAS_OWN,
) -> ArmCompileSpec:
    """Returns the settings of an Ethos-U, see `ArmCompileSpecBuilder.ethosu_compile_spec`."""
    builder = ArmCompileSpecBuilder()
    return builder.ethosu_compile_spec(config, system_config, memory_mode, extra_flags, config_ini).build()


def tosa_compile_spec(tosa_spec: str) -> ArmCompileSpec:
    """Returns the settings of TOSA graphs, see `ArmCompileSpecBuilder.tosa_compile_spec`."""
    return ArmCompileSpecBuilder().tosa_compile_spec(tosa_spec).build()


def vgf_compile_spec(tosa_spec: str = "") -> ArmCompileSpec:
    """Returns the settings of VGF, see `ArmCompileSpecBuilder.vgf_compile_spec`."""
    return ArmCompileSpecBuilder().vgf_compile_spec(tosa_spec).build()


def _refuse(what: str, help: str) -> NoReturn:
    raise DelegatecError([Diagnostic("DC402", f"compile spec of an Arm delegate with {what}", help=help)])
