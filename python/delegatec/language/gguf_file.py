# SPDX-License-Identifier: Apache-2.0
"""A GGUF file, as llama.cpp stores models: transformers reads its configuration and names of tensors.

Names, orders of rows and offsets of norms differ from those of networks; transformers has them by family.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import first_line
from delegatec.language.folder import Description, unreadable
from delegatec.language.library import unsupported

SUFFIX: Final = ".gguf"
_FREQUENCIES: Final = "rope_freqs.weight"
# Sizes that transformers does not read for all families.
_SIZES: Final = {"attention.key_length": "head_dim", "expert_feed_forward_length": "moe_intermediate_size"}
# Those of all models of Llama 3.1 to 3.3, which a file has as factors of frequencies only.
_LLAMA3: Final = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass(frozen=True)
class GgufFile:
    """A file.

    Attributes:
        path: the file.
        description: the model.
        reader: the library's, with the tensors, which stay in the file.
    """

    path: str
    description: Description
    reader: Any

    def weights(self, network: Any) -> GgufWeights:
        """Returns the weights of a network.

        Args:
            network: the network of the description, without weights.

        Raises:
            DelegatecError: DC117, one diagnostic for each tensor that is missing or unknown.
        """
        from transformers.modeling_gguf_pytorch_utils import (
            TENSOR_PROCESSORS,
            TensorProcessor,
            get_gguf_hf_weights_map,
            read_field,
        )

        family = read_field(self.reader, "general.architecture")[0]
        processor = TENSOR_PROCESSORS.get(family, TensorProcessor)(config=dict(self.description.config))
        names = get_gguf_hf_weights_map(network, processor)
        tensors: dict[str, list[Any]] = {}
        problems = []
        for tensor in self.reader.tensors:
            # matrices of experts have no suffix in the network
            name = names.get(tensor.name, names.get(tensor.name.removesuffix(".weight")))
            if name is not None:
                tensors.setdefault(name, []).append(tensor)
            elif tensor.name != _FREQUENCIES:
                problems.append(f'the file has an unknown tensor "{tensor.name}"')
        expected: Mapping[str, Tensor] = network.state_dict()
        for name, other in network.all_tied_weights_keys.items():
            if name not in tensors and other in tensors:
                tensors[name] = tensors[other]
        problems += [f'the file lacks "{name}"' for name in expected if name not in tensors]
        if problems:
            raise _mismatch(problems)
        return GgufWeights(expected, tensors, functools.partial(_value, processor, names))


@dataclass(frozen=True)
class GgufWeights:
    """The weights of a network by name; one is in memory at a time.

    Attributes:
        expected: the weights, without values.
        tensors: name of a weight -> tensors of the file.
        value: returns the value of a weight, given its name and these tensors.
    """

    expected: Mapping[str, Tensor]
    tensors: Mapping[str, list[Any]]
    value: Callable[[str, list[Any]], Tensor]

    def shape(self, name: str) -> tuple[int, ...]:
        """See `Weights.shape`."""
        return tuple(self.expected[name].shape)

    @contextmanager
    def rows(self, name: str) -> Iterator[Callable[[slice], Tensor]]:
        """See `Weights.rows`."""
        value = self.value(name, self.tensors[name])
        if tuple(value.shape) != self.shape(name):
            shapes = f"{list(value.shape)}, and the configuration says {list(self.shape(name))}"
            raise _mismatch([f'"{self.tensors[name][0].name}" of the file has shape {shapes}'])
        yield lambda rows: value[rows]


def gguf_in(directory: str) -> str | None:
    """Returns the path of the GGUF file in a folder without other weights; None if there is none.

    Raises:
        DelegatecError: DC115, there are several.
    """
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    files = [name for name in names if name.endswith(SUFFIX)]
    if not files or any(name.endswith(".safetensors") for name in names):
        return None
    if len(files) > 1:
        text = f"the checkpoint has {len(files)} GGUF files: {', '.join(files[:4])}"
        help = "list one; llama.cpp's gguf-split --merge joins the parts of a file"
        raise DelegatecError([Diagnostic("DC115", text, expected="one file", help=help)])
    return os.path.join(directory, files[0])


def read_gguf(path: str) -> GgufFile:
    """Reads what a file says of its model, but no weights.

    Raises:
        DelegatecError: DC103, transformers or gguf is missing; DC116, the file is damaged; DC138, its family
            is not one that transformers reads from such files.
    """
    try:
        from gguf import GGUFReader
        from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    except ModuleNotFoundError as error:
        text = f'a GGUF file needs transformers and gguf: no module named "{error.name}"'
        help = "install it, or add it to deps"
        raise DelegatecError([Diagnostic("DC103", text, help=help)]) from error
    try:
        reader = GGUFReader(path)
    except (ValueError, OSError, IndexError, KeyError) as error:
        raise unreadable(path, first_line(error)) from error
    try:
        config = load_gguf_checkpoint(path)["config"]
    except (ValueError, LookupError) as error:
        raise unsupported(
            f"transformers does not read {os.path.basename(path)}: {first_line(error)}",
            "a family such as llama, qwen2, qwen3 or gemma3",
            "take the checkpoint with .safetensors files that it was converted from",
        ) from error
    config = {name: _plain(value) for name, value in config.items()}
    _complete(config, reader)
    return GgufFile(path, Description(config, {}, {}), reader)


def _complete(config: dict[str, Any], reader: Any) -> None:
    """Adds what transformers does not read: sizes, and factors of frequencies.

    Raises:
        DelegatecError: DC138, frequencies are scaled in a way that the file does not describe.
    """
    from transformers.modeling_gguf_pytorch_utils import read_field

    family = read_field(reader, "general.architecture")[0]
    for key, name in _SIZES.items():
        if found := read_field(reader, f"{family}.{key}"):
            config.setdefault(name, _plain(found[0]))
    scaling = read_field(reader, f"{family}.rope.scaling.type")
    if scaling and scaling[0] != "none" and "rope_scaling" not in config:
        raise _scaled(f'by "{scaling[0]}"')
    for tensor in reader.tensors:
        if tensor.name == _FREQUENCIES:
            config["rope_parameters"] = _llama3(config, torch.from_numpy(np.copy(tensor.data)).float())


def _llama3(config: Mapping[str, Any], factors: Tensor) -> dict[str, Any]:
    """Returns the parameters of rotary embeddings whose frequencies are divided by factors."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    theta = config.get("rope_theta", 10000.0)
    parameters = {**_LLAMA3, "rope_theta": theta, "factor": float(factors.max())}
    size = 2 * len(factors)
    sizes = {"head_dim": size, "hidden_size": size, "num_attention_heads": 1}
    made = LlamaConfig(**sizes, rope_parameters=dict(parameters), max_position_embeddings=131072)
    frequencies, _ = ROPE_INIT_FUNCTIONS["llama3"](made, torch.device("cpu"))
    plain = theta ** (-torch.arange(0, size, 2).float() / size)
    if not torch.allclose(plain / frequencies, factors, rtol=1e-3):
        raise _scaled("by factors that are not those of Llama 3")
    return parameters


def _value(processor: Any, names: Mapping[str, str], name: str, tensors: list[Any]) -> Tensor:
    """Returns the value of a weight, float32.

    Args:
        processor: transformers' conversion of the family's tensors.
        names: name of a tensor of the file -> that of the weight.
        name: the weight.
        tensors: those that it consists of, several for experts.
    """
    from gguf.quants import dequantize

    joined: dict[str, dict[str, Tensor]] = {"tensors": {}}
    for tensor in tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        found = processor.process(
            weights=values, name=tensor.name, tensor_key_mapping=names, parsed_parameters=joined
        )
        if found.name is not None:
            joined["tensors"][name] = torch.from_numpy(np.ascontiguousarray(found.weights, np.float32))
    return joined["tensors"][name]


def _plain(value: Any) -> Any:
    """Returns a value of a configuration as JSON has it."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _scaled(how: str) -> DelegatecError:
    return unsupported(
        f"the GGUF file scales the frequencies of rotary embeddings {how}",
        "frequencies without a scale, or those of Llama 3",
        "take the checkpoint with .safetensors files that it was converted from",
    )


def _mismatch(problems: list[str]) -> DelegatecError:
    help = "take the checkpoint with .safetensors files that it was converted from"
    return DelegatecError(Diagnostic("DC117", text, help=help) for text in problems)
