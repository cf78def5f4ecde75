# SPDX-License-Identifier: Apache-2.0
"""Where the weights of a network come from: tensors of a checkpoint's files, read by rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.folder import CONFIG, Folder, read_folder
from delegatec.language.gguf_file import SUFFIX, GgufFile, gguf_in, read_gguf


class Weights(Protocol):
    """The weights of a network by name, in their own dtypes."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a weight."""

    def rows(self, name: str) -> AbstractContextManager[Callable[[slice], Tensor]]:
        """Returns a context whose value is a function that reads rows of a weight."""


@dataclass(frozen=True)
class _Renamed:
    """Tensors of files.

    Attributes:
        folder: the checkpoint.
        names: name of a weight -> that of a tensor of the checkpoint.
    """

    folder: Folder
    names: Mapping[str, str]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.folder.shape(self.names[name])

    def rows(self, name: str) -> AbstractContextManager[Callable[[slice], Tensor]]:
        return self.folder.rows(self.names[name])


@dataclass(frozen=True)
class _InMemory:
    """Tensors in memory."""

    tensors: Mapping[str, Tensor]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.tensors[name].shape)

    @contextmanager
    def rows(self, name: str) -> Iterator[Callable[[slice], Tensor]]:
        tensor = self.tensors[name]
        yield (lambda rows: tensor[rows]) if tensor.dim() else (lambda _: tensor)


def read_checkpoint(path: str) -> Folder | GgufFile:
    """Reads what a folder, or a GGUF file, says of its model, but no weights.

    Raises:
        DelegatecError: as `read_folder` and `read_gguf`.
    """
    file = path if path.endswith(SUFFIX) else gguf_in(path)
    return read_folder(path) if file is None else read_gguf(file)


def weights_of(network: Any, folder: Folder | GgufFile) -> Weights:
    """Returns the weights of a network.

    Names of most checkpoints are those of the network, or names that transformers translates: nothing is read
    yet. Families whose files are arranged in another way, such as one tensor for each expert, are loaded by
    transformers, in the dtype of the files.

    Args:
        network: the network, without weights.
        folder: its checkpoint.

    Raises:
        DelegatecError: DC117, one diagnostic for each tensor that is missing, unknown or of another shape.
    """
    if isinstance(folder, GgufFile):
        return folder.weights(network)
    names, problems = _match(network, folder, {name: name for name in folder.tensors})
    if not problems:
        return _Renamed(folder, names)
    translated = _translated(network, folder)
    if translated is None:
        return _InMemory(_load(network, folder))
    if translated:
        names, problems = _match(network, folder, translated)
    if problems:
        raise _mismatch(problems)
    return _Renamed(folder, names)


def _match(network: Any, folder: Folder, files: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Returns the tensor of each weight, and what does not match; tied weights have the same tensor.

    Args:
        network: the network.
        folder: its checkpoint.
        files: name of a tensor as the network may call it -> its name in the checkpoint.
    """
    expected: Mapping[str, Tensor] = network.state_dict()
    tied: Mapping[str, str] = network.all_tied_weights_keys
    prefix = f"{network.base_model_prefix}."
    # a checkpoint of the network without its head lacks the prefix
    removed = "" if any(name.startswith(prefix) for name in files) else prefix
    names: dict[str, str] = {}
    problems = []
    for name, tensor in expected.items():
        candidates = [each.removeprefix(removed) for each in (name, tied.get(name, name))]
        found = next((files[each] for each in candidates if each in files), None)
        if found is None:
            problems.append(f'the checkpoint lacks "{name}" of shape {list(tensor.shape)}')
        elif folder.shape(found) != tuple(tensor.shape):
            shapes = f"{list(folder.shape(found))}, and the configuration says {list(tensor.shape)}"
            problems.append(f'"{found}" of the checkpoint has shape {shapes}')
        names[name] = found or ""
    used = {*names.values(), *(files.get(name) for name in tied)}
    problems += [
        f'the checkpoint has an unknown tensor "{name}" of shape {list(folder.shape(name))}'
        for name in folder.tensors
        if name not in used and not _is_ignored(network, name)
    ]
    return names, problems


def _translated(network: Any, folder: Folder) -> dict[str, str] | None:
    """Returns names of tensors as transformers translates them -> those in a checkpoint; none without need.

    None if tensors themselves have to be changed.
    """
    from transformers.conversion_mapping import (
        extract_weight_conversions_for_model,
        get_model_conversion_mapping,
    )
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    if not extract_weight_conversions_for_model(network):
        return {}
    conversions = get_model_conversion_mapping(network)
    renamings = [each for each in conversions if isinstance(each, WeightRenaming)]
    converters = [each for each in conversions if not isinstance(each, WeightRenaming)]
    expected = network.state_dict()
    result = {}
    for name in folder.tensors:
        found, pattern = rename_source_key(name, renamings, converters, network.base_model_prefix, expected)
        if pattern is not None:
            return None
        result[name if found not in expected and name in expected else found] = name
    return result


def _is_ignored(network: Any, name: str) -> bool:
    """Whether transformers ignores a tensor, such as frequencies that older versions stored."""
    patterns = [r"rotary_emb\.inv_freq", r"embeddings\.position_ids"]
    for module in network.modules():
        patterns += getattr(module, "_keys_to_ignore_on_load_unexpected", None) or ()
    return any(re.search(pattern, name) for pattern in patterns)


def _load(network: Any, folder: Folder) -> Mapping[str, Tensor]:
    loaded, found = type(network).from_pretrained(
        folder.path,
        config=network.config,
        dtype="auto",
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
    )
    problems = [f'the checkpoint lacks "{name}"' for name in sorted(found["missing_keys"])]
    problems += [
        f'the checkpoint has an unknown tensor "{name}"' for name in sorted(found["unexpected_keys"])
    ]
    problems += [
        f'"{name}" of the checkpoint has shape {list(shape)}, and the configuration says {list(expected)}'
        for name, shape, expected in sorted(found["mismatched_keys"])
    ]
    if problems:
        raise _mismatch(problems)
    tensors: Mapping[str, Tensor] = loaded.state_dict()
    return tensors


def _mismatch(problems: list[str]) -> DelegatecError:
    help = f"use files that were published together: {CONFIG} describes another network"
    return DelegatecError(Diagnostic("DC117", text, help=help) for text in problems)
