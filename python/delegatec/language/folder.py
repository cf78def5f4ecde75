# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's folder as Hugging Face publishes it: a configuration, weights and a tokenizer."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from safetensors import SafetensorError, safe_open
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import first_line
from delegatec.files import HEAD_BYTES, kind_of_file

CONFIG: Final = "config.json"
GENERATION_CONFIG: Final = "generation_config.json"
PREPROCESSOR_CONFIG: Final = "preprocessor_config.json"
# The later name: it contains those of several preprocessors by name.
_PROCESSOR: Final = "processor_config.json"
_INDEX: Final = "model.safetensors.index.json"
_WHOLE: Final = "model.safetensors"
# Dtypes of weights, as .safetensors files name them.
_FLOATS: Final = ("F32", "BF16", "F16", "F64")


@dataclass(frozen=True)
class Description:
    """What a folder says of its model.

    Attributes:
        config: the contents of `config.json`.
        generation: the contents of `generation_config.json`; empty without the file.
        preprocessor: the contents of `preprocessor_config.json`, else of `processor_config.json`, which has
            those of several preprocessors by name, such as "feature_extractor"; empty without either.
    """

    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    preprocessor: Mapping[str, Any]

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids of the tokens that end a text, as generation_config.json, else config.json, lists them."""
        text: Mapping[str, Any] = self.config.get("text_config") or {}
        sources = (self.generation, self.config, text)
        found = next((each["eos_token_id"] for each in sources if "eos_token_id" in each), None)
        values = found if isinstance(found, list) else [found]
        return tuple(value for value in values if isinstance(value, int) and not isinstance(value, bool))


@dataclass(frozen=True)
class Folder:
    """A checkpoint's folder. Nothing of it is executed.

    Attributes:
        path: the directory.
        description: the model.
        tensors: name of a tensor -> path of the `.safetensors` file that contains it.
    """

    path: str
    description: Description
    tensors: Mapping[str, str]

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        with self._opened(name) as file:
            return tuple(file.get_slice(name).get_shape())

    @contextlib.contextmanager
    def rows(self, name: str) -> Iterator[Callable[[slice], Tensor]]:
        """Yields a function that reads rows of a tensor: only these are in memory, until the block ends."""
        with self._opened(name) as file:
            part = file.get_slice(name)
            # a scalar has no rows
            yield (lambda rows: part[rows]) if part.get_shape() else (lambda _: file.get_tensor(name))

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        path = self.tensors[name]
        try:
            with safe_open(path, "pt") as file:
                yield file
        except SafetensorError as error:
            raise unreadable(path, first_line(error)) from error


def read_folder(path: str) -> Folder:
    """Reads what a folder contains, but no weights.

    Args:
        path: the directory, with `config.json` and `.safetensors` files.

    Raises:
        DelegatecError: DC115, a file is missing; DC116, one cannot be read.
    """
    config = read_json(path, CONFIG, "the configuration of the model")
    generation, preprocessor = (
        _first_json(path, *names) for names in ((GENERATION_CONFIG,), (PREPROCESSOR_CONFIG, _PROCESSOR))
    )
    tensors: dict[str, str] = {}
    problems = []
    for name in _weight_files(path):
        file = os.path.join(path, name)
        try:
            with safe_open(file, "pt") as opened:
                tensors |= dict.fromkeys(opened.keys(), file)
                dtypes = {each: opened.get_slice(each).get_dtype() for each in opened.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise unreadable(file, first_line(error)) from error
        problems += [
            f'"{each}" of {name} is {dtype}' for each, dtype in dtypes.items() if dtype not in _FLOATS
        ]
    if problems and "quantization_config" not in config:
        # one with a quantization_config is refused with the decoder
        expected, help = "float32, bfloat16 or float16", "take the checkpoint that it was quantized from"
        raise DelegatecError(Diagnostic("DC117", text, expected=expected, help=help) for text in problems)
    return Folder(path, Description(config, generation, preprocessor), tensors)


def _first_json(path: str, *names: str) -> Mapping[str, Any]:
    """Returns the object in the first of several files that the folder has; empty without any."""
    found = next((name for name in names if os.path.exists(os.path.join(path, name))), None)
    return read_json(path, found, "") if found else {}


def _weight_files(path: str) -> list[str]:
    """Returns the names of the files with weights: a folder may have weights in several forms."""
    names = sorted(os.listdir(path))
    if _INDEX in names:
        try:
            listed = sorted({*read_json(path, _INDEX, "")["weight_map"].values()})
        except (KeyError, TypeError, AttributeError) as error:
            raise unreadable(os.path.join(path, _INDEX), "it has no weight_map") from error
        if missing := [name for name in listed if name not in names]:
            text = f"the checkpoint lacks {', '.join(missing)}"
            help = "list all files of the published folder"
            raise DelegatecError([Diagnostic("DC115", text, expected=f"all files of {_INDEX}", help=help)])
        return listed
    files = [name for name in names if name.endswith(".safetensors")]
    if not files:
        others = [name for name in names if name.endswith((".bin", ".pth", ".pt"))]
        text = "the checkpoint has no weights" + (f", but {', '.join(others)}" if others else "")
        help = "convert them: transformers' save_pretrained writes .safetensors"
        raise DelegatecError(
            [Diagnostic("DC115", text, expected="one or more .safetensors files", help=help)]
        )
    return [_WHOLE] if _WHOLE in files else files


def _number(value: dict[str, Any]) -> Any:
    """Returns the number that an object stands for, as transformers writes infinities and NaN."""
    return float(value["__float__"]) if value.keys() == {"__float__"} else value


def read_json(folder: str, name: str, meaning: str) -> Mapping[str, Any]:
    """Returns the object in a file of a folder.

    Args:
        folder: the directory.
        name: the file's name.
        meaning: what it describes, for the message if it is missing.

    Raises:
        DelegatecError: DC115, the file is missing; DC116, it is damaged.
    """
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file, object_hook=_number)
    except FileNotFoundError:
        listed = ", ".join(sorted(os.listdir(folder))[:8]) if os.path.isdir(folder) else ""
        problem = Diagnostic(
            "DC115",
            f"the checkpoint has no {name}: its files are {listed or 'none'}",
            expected=f"{name}, {meaning}",
            help="list all files of the published folder",
        )
        raise DelegatecError([problem]) from None
    except (ValueError, TypeError, RecursionError, OSError) as error:
        raise unreadable(path, first_line(error)) from error
    if not isinstance(content, dict):
        raise unreadable(path, f"it contains a {type(content).__name__}")
    return content


def unreadable(path: str, reason: str) -> DelegatecError:
    """Returns DC116; a file of another kind, such as a pointer of Git LFS, is named as such.

    Args:
        path: the file.
        reason: why it cannot be read, if it is of the right kind.
    """
    with contextlib.suppress(OSError), open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
        # in a .safetensors file, an object in JSON follows 8 bytes
        if head[:1] not in b"{[ \n" and head[8:9] != b"{":
            reason = kind_of_file(head)
    text = f"cannot read {os.path.basename(path)} of the checkpoint: {reason}"
    expected = "a file as it was published"
    problem = Diagnostic("DC116", text, expected=expected, help="download it again")
    return DelegatecError([problem])
