# SPDX-License-Identifier: Apache-2.0
"""Settings of a backend: a dataclass of enumerations and texts, which defines options and compile specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from delegatec.delegation.protocol.backend import OptionSpec
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.diagnostics import DelegatecError, Diagnostic

SettingsT = TypeVar("SettingsT")


class Precision(Enum):
    """The dtype in which a delegate computes float32 values."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"


class Overflow(Enum):
    """The treatment of values out of float16's range."""

    ERROR = "error"
    SATURATE = "saturate"


@dataclass(frozen=True)
class Setting:
    """The option and the compile spec of a field of a backend's settings.

    The field is an enumeration, or a value that is parsed from a text, and whose `str` is its canonical text.

    Attributes:
        doc: one sentence for the user.
        option: its name for the user, by default that of the field.
        key: of a compile spec that others define, which is always stored; by default it is the option's
            name, with the option's value unless it is the default.
        values: value -> bytes of that compile spec.
        parse: parses a text; raises ValueError with the problem. None for an enumeration.
        is_file: whether the text is the path of a file.
        names: texts that are not paths, of a file.
        needs: another option and its value, as in `OptionSpec`.
    """

    doc: str
    option: str = ""
    key: str = ""
    values: Mapping[Enum, bytes] = field(default_factory=dict)
    parse: Callable[[str], Any] | None = None
    is_file: bool = False
    names: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


PRECISION: Final = Setting(
    "fp16 stores float32 weights as float16 and computes in it; inputs, outputs and what the model's code "
    "converts to float32 stay float32",
    values={Precision.FP32: b"fp32", Precision.FP16: b"fp16"},
)
"""For backends that compute in float16; see `precision.to_float16`."""
OVERFLOW: Final = Setting(
    "with fp16, error rejects weights and constants beyond +-65504, saturate clamps them to that range; the "
    "lowest and highest float32 are always clamped",
    option="fp16_overflow",
    needs=("precision", Precision.FP16.value),
)
"""For the same backends; see `constants.to_float16`."""


class SettingsCodec(Generic[SettingsT]):
    """Converts a user's options to compile specs, and these to settings.

    Args:
        backend: the backend's id.
        defaults: a dataclass of enumerations.
        settings: name of each field -> its option and compile spec.

    Attributes:
        backend: as given.
        options: name of each option -> its spec.
    """

    def __init__(self, backend: str, defaults: SettingsT, settings: Mapping[str, Setting]) -> None:
        self.backend: Final = backend
        self._defaults: Any = defaults
        self._fields = {name: self._complete(name, each) for name, each in settings.items()}
        self.options: Final[Mapping[str, OptionSpec]] = {
            each.option: OptionSpec(
                each.names or tuple(value.value for value in each.values),
                _text(getattr(defaults, name)),
                each.doc,
                each.is_file,
                each.needs,
            )
            for name, each in self._fields.items()
        }

    def _complete(self, name: str, given: Setting) -> Setting:
        option = given.option or name
        if given.parse is not None:
            return replace(given, option=option)
        values = {each: str(each.value).encode() for each in type(getattr(self._defaults, name))}
        return replace(given, option=option, values=given.values or values)

    def encode(self, options: Mapping[str, str]) -> list[CompileSpec]:
        """Returns the compile specs for resolved options.

        Raises:
            DelegatecError: DC402 for every text that cannot be parsed.
        """
        specs, problems = [], []
        for name, each in self._fields.items():
            default = getattr(self._defaults, name)
            try:
                value, data = _encoded(each, options[each.option])
            except ValueError as error:
                message = f"invalid value of option {each.option!r} of {self.backend}: {error}"
                problems.append(Diagnostic("DC402", message))
                continue
            if each.key or value != default:
                specs.append(CompileSpec(each.key or each.option, data))
        if problems:
            raise DelegatecError(problems)
        return specs

    def decode(self, compile_specs: Sequence[CompileSpec]) -> SettingsT:
        """Returns the settings of compile specs, defaults if they are absent.

        Raises:
            DelegatecError: DC402 for every unknown setting and every invalid value.
        """
        names = {each.key or each.option: name for name, each in self._fields.items()}
        found: dict[str, Any] = {}
        problems = []
        for spec in compile_specs:
            if spec.key not in names:
                message = f"unknown compile spec of {self.backend}: {spec.key!r}"
                problems.append(Diagnostic("DC402", message, expected=", ".join(names)))
                continue
            name, data = names[spec.key], bytes(spec.value)
            parse = self._fields[name].parse
            if parse is not None:
                try:
                    found[name] = parse(data.decode())
                except ValueError as error:
                    message = f"invalid value of compile spec {spec.key!r} of {self.backend}: {error}"
                    problems.append(Diagnostic("DC402", message))
                continue
            values = {each: value for value, each in self._fields[name].values.items()}
            if data in values:
                found[name] = values[data]
            else:
                message = f"invalid value of compile spec {spec.key!r} of {self.backend}: {data!r}"
                problems.append(Diagnostic("DC402", message, expected=" or ".join(map(repr, values))))
        if problems:
            raise DelegatecError(problems)
        settings: SettingsT = replace(self._defaults, **found)
        return settings


def _text(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)


def _encoded(setting: Setting, text: str) -> tuple[Any, bytes]:
    """Returns the value of a resolved option, and the bytes of its compile spec."""
    if setting.parse is not None:
        value = setting.parse(text)
        return value, str(value).encode()
    return next((value, data) for value, data in setting.values.items() if value.value == text)
