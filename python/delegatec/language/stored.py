# SPDX-License-Identifier: Apache-2.0
"""A file with the stored weights of a language model and its description: what an export of it reads.

It is a `.safetensors` file. It is written by rows: only a part of one tensor is in memory at a time.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import first_line
from delegatec.files import replacing
from delegatec.language.folder import Description
from delegatec.language.forms import Form
from delegatec.language.settings import WeightSettings
from delegatec.language.sources import Weights
from delegatec.language.weights import convert, stored_tensors

_DTYPES: Final = {torch.float32: "F32", torch.float16: "F16", torch.int8: "I8"}
_ALIGNMENT: Final = 64
_KEY: Final = "delegatec_language_model"


@dataclass(frozen=True)
class StoredModel:
    """The contents of a file.

    Attributes:
        description: the model.
        settings: how its weights are stored.
        tensors: the stored tensors by name, views of the mapped file.
    """

    description: Description
    settings: WeightSettings
    tensors: Mapping[str, Tensor]


def write_stored(
    path: str,
    network: Any,
    forms: Mapping[str, Form],
    weights: Weights,
    description: Description,
    settings: WeightSettings,
) -> None:
    """Writes the stored tensors of a network.

    Args:
        path: the file to write.
        network: the network, without weights, before `store_weights`.
        forms: name of a weight -> its form, where it is not float32.
        weights: where the values come from.
        description: the model.
        settings: how its weights are stored.
    """
    # those with the largest elements first: all are aligned
    tensors = sorted(stored_tensors(network, forms).items(), key=lambda item: -item[1].element_size())
    text = json.dumps({**asdict(description), "settings": asdict(settings)}, sort_keys=True)
    header: dict[str, Any] = {"__metadata__": {_KEY: text}}
    begins, row_sizes, end = {}, {}, 0
    for name, tensor in tensors:
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        begins[name], row_sizes[name] = begin, math.prod(tensor.shape[1:]) * tensor.element_size()
    head = json.dumps(header, separators=(",", ":")).encode()
    # with the 8 bytes before it: matrices are aligned as allocated ones are, and their products the same
    head += b" " * (-(8 + len(head)) % _ALIGNMENT)
    with replacing(path) as file:
        file.write(len(head).to_bytes(8, "little") + head)
        data = file.tell()
        file.truncate(data + end)
        for name, start, part in convert(network, forms, weights):
            file.seek(data + begins[name] + start * row_sizes[name])
            file.write(part.contiguous().numpy().data)


def read_stored(path: str) -> StoredModel:
    """Reads a file of `write_stored`; its tensors stay in the file.

    Raises:
        DelegatecError: DC116, it is damaged, or another file.
    """
    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(_KEY)
        if text is None:
            raise _unreadable(path, "it has no description of a language model")
        values = json.loads(text)
        description = Description(values["config"], values["generation"], values["preprocessor"])
        return StoredModel(description, WeightSettings(**values["settings"]), load_file(path))
    except (SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
        raise _unreadable(path, first_line(error)) from error


def _unreadable(path: str, reason: str) -> DelegatecError:
    problem = Diagnostic(
        "DC116",
        f"cannot read {os.path.basename(path)}: {reason}",
        expected="a file that `delegatec checkpoint` wrote, or the folder of a checkpoint",
        help="build it again with this version of the compiler",
    )
    return DelegatecError([problem])
