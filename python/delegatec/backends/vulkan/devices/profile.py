# SPDX-License-Identifier: Apache-2.0
"""The profile of a device, which a file in JSON describes; `docs/vulkan.md` documents its fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

SIZES: Final = {
    "convolution.output_channels": "channels of a convolution without groups, with a kernel of many elements",
    "pointwise.output_channels": "channels of a convolution without groups, with a kernel of one element",
    "product.rows": "rows of the result of a matrix product",
    "attention.rows": "queries of one head",
}
"""The sizes that a fault may be about, and their meaning."""

_SUFFIX: Final = ".json"


@dataclass(frozen=True)
class Fault:
    """Sizes for which a device computes wrong results.

    Attributes:
        size: a key of `SIZES`.
        first: the smallest of these sizes.
        last: the largest one; None if there is none.
        effect: what goes wrong, and the source of this fact.
    """

    size: str
    first: int
    last: int | None
    effect: str

    def includes(self, low: int, high: int) -> bool:
        """Whether one of the sizes from `low` to `high` is wrong."""
        return high >= self.first and (self.last is None or low <= self.last)


@dataclass(frozen=True)
class Device:
    """The profile of a device. The default is any device: without faults, and with the limits of most.

    Attributes:
        name: for messages; empty for any device.
        storage: "buffer" or "texture", where the choice is free; empty for no preference.
        float16: whether it computes in float16.
        textures: the largest texture in texels; None if the option `textures` alone limits it.
        buffer_bytes: the largest buffer; None without a limit.
        faults: sizes with wrong results.
    """

    name: str = ""
    storage: str = ""
    float16: bool = True
    textures: tuple[int, int, int] | None = None
    buffer_bytes: int | None = None
    faults: tuple[Fault, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Device:
        """Reads a profile.

        Args:
            text: the name of a built-in device, the path of a file, or the contents of one.

        Raises:
            ValueError: no device has the name; the file cannot be read, or is malformed: every problem.
        """
        if not text:
            return cls()
        if text.startswith("{"):
            return _parsed("the device", text)
        if text in builtin_devices():
            return _parsed(text, builtin_devices()[text].read_text(encoding="utf-8"))
        if not text.endswith(_SUFFIX):
            raise ValueError(
                f"no device is named {text!r}; expected {', '.join(builtin_devices())}, or the path of a "
                f"file *{_SUFFIX}"
            )
        try:
            return _parsed(text, Path(text).read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"{text!r} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{text!r} cannot be read: it is not UTF-8") from error

    def __str__(self) -> str:
        """Returns the canonical text: contents that `parse` reads, without defaults; empty for any device."""
        if not self.name:
            return ""
        values = {
            name: list(value) if isinstance(value, tuple) else value
            for name in ("name", "storage", "float16", "textures", "buffer_bytes")
            if (value := getattr(self, name)) != getattr(_ANY, name)
        }
        faults = [
            {"size": each.size, "from": each.first, "to": each.last, "effect": each.effect}
            for each in self.faults
        ]
        kept = [{name: value for name, value in each.items() if value is not None} for each in faults]
        return json.dumps({**values, **({"faults": kept} if kept else {})}, separators=(",", ":"))

    def fault(self, size: str, low: int, high: int) -> Fault | None:
        """Returns the first fault for a size that varies from `low` to `high`, if any."""
        return next((each for each in self.faults if each.size == size and each.includes(low, high)), None)


_ANY: Final = Device()


@cache
def builtin_devices() -> Mapping[str, Traversable]:
    """Returns the built-in devices: name -> its file, sorted by name."""
    found = (each for each in files(__package__).joinpath("builtin").iterdir() if each.name.endswith(_SUFFIX))
    return {
        each.name.removesuffix(_SUFFIX).replace("_", "-"): each
        for each in sorted(found, key=lambda f: f.name)
    }


@dataclass
class _Reading:
    """The fields of an object of a file, as they are read, and the problems of the file.

    Attributes:
        file: its name, for messages.
        values: of the object.
        path: of the object in the file, with a dot at its end; empty for the file itself.
        problems: of the file, so far.
    """

    file: str
    values: dict[str, Any]
    path: str = ""
    problems: list[str] = field(default_factory=list)

    def take(self, name: str, expected: str, fits: Callable[[Any], bool], default: Any = None) -> Any:
        """Removes a field and returns its value; `default` if it is absent or does not fit."""
        if name not in self.values:
            return default
        value = self.values.pop(name)
        if fits(value):
            return value
        self.problems.append(f"{self.path}{name} is {json.dumps(value)}; expected {expected}")
        return default

    def required(self, name: str, expected: str, fits: Callable[[Any], bool], default: Any) -> Any:
        """Like `take`, but an absent field is a problem."""
        if name not in self.values:
            self.problems.append(f"{self.path}{name} is missing; expected {expected}")
        return self.take(name, expected, fits, default)

    def end(self, known: str) -> None:
        """Reports the fields that were not taken."""
        self.problems += [f"{self.path}{name} is not a field; expected {known}" for name in self.values]


def _parsed(file: str, text: str) -> Device:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{file} is {type(values).__name__} in JSON; expected an object with a field name")
    reading = _Reading(file, dict(values))
    names = list(builtin_devices())
    extended = reading.take("extends", "one of " + ", ".join(names), lambda each: each in names)
    base = Device.parse(extended) if extended else _ANY
    name = reading.required("name", "a text", _is_text, "?")
    reading.take("description", "a text", _is_text)
    device = Device(
        name,
        reading.take(
            "storage", "texture or buffer", lambda each: each in ("texture", "buffer"), base.storage
        ),
        reading.take("float16", "true or false", lambda each: isinstance(each, bool), base.float16),
        _tuple(
            reading.take(
                "textures", "three sizes in texels, [width, height, depth]", _is_extent, base.textures
            )
        ),
        reading.take("buffer_bytes", "a number of bytes, 1 or more", _is_count, base.buffer_bytes),
        (*base.faults, *_faults(reading)),
    )
    reading.end("extends, name, description, storage, float16, textures, buffer_bytes or faults")
    if reading.problems:
        raise ValueError(f"{file}: {'; '.join(reading.problems)}")
    return device


def _faults(reading: _Reading) -> Iterator[Fault]:
    listed = reading.take("faults", "a list of objects", _are_objects, [])
    names = list(SIZES)  # a value may be a list, which no dict has as a key
    for index, values in enumerate(listed):
        each = _Reading(reading.file, dict(values), f"faults[{index}].", reading.problems)
        size = each.required("size", " or ".join(SIZES), lambda value: value in names, "")
        first = each.required("from", "a size, 1 or more", _is_count, 1)
        last = each.take("to", f"a size, {first} or more", partial(_is_count, least=first))
        effect = each.required("effect", "a text", _is_text, "?")
        each.end("size, from, to or effect")
        yield Fault(size, first, last, effect)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_extent(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_count, value))


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
