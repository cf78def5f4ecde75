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
from delegatec.language.folder import CONFIG, Folder


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


def weights_of(network: Any, folder: Folder) -> Weights:
    """Returns the weights of a network.

    Names of most checkpoints are those of the network: nothing is read yet. Families whose files are arranged
    in another way, such as one tensor for each expert, are loaded by transformers, in the dtype of the files.

    Args:
        network: the network, without weights.
        folder: its checkpoint.

    Raises:
        DelegatecError: DC117, one diagnostic for each tensor that is missing, unknown or of another shape.
    """
    names, problems = _match(network, folder)
    if not problems:
        return _Renamed(folder, names)
    if _is_converted(network):
        return _InMemory(_load(network, folder))
    raise _mismatch(problems)


def _match(network: Any, folder: Folder) -> tuple[dict[str, str], list[str]]:
    """Returns the tensor of each weight, and what does not match; tied weights have the same tensor."""
    expected: Mapping[str, Tensor] = network.state_dict()
    tied: Mapping[str, str] = network.all_tied_weights_keys
    prefix = f"{network.base_model_prefix}."
    # a checkpoint of the network without its head lacks the prefix
    removed = "" if any(name.startswith(prefix) for name in folder.tensors) else prefix
    names: dict[str, str] = {}
    problems = []
    for name, tensor in expected.items():
        candidates = [each.removeprefix(removed) for each in (name, tied.get(name, name))]
        found = next((each for each in candidates if each in folder.tensors), None)
        if found is None:
            problems.append(f'the checkpoint lacks "{name}" of shape {list(tensor.shape)}')
        elif folder.shape(found) != tuple(tensor.shape):
            shapes = f"{list(folder.shape(found))}, and the configuration says {list(tensor.shape)}"
            problems.append(f'"{found}" of the checkpoint has shape {shapes}')
        names[name] = found or ""
    used = {*names.values(), *tied}
    problems += [
        f'the checkpoint has an unknown tensor "{name}" of shape {list(folder.shape(name))}'
        for name in folder.tensors
        if name not in used and not _is_ignored(network, name)
    ]
    return names, problems


def _is_ignored(network: Any, name: str) -> bool:
    """Whether transformers ignores a tensor, such as frequencies that older versions stored."""
    patterns = [*(network._keys_to_ignore_on_load_unexpected or ()), r"rotary_emb\.inv_freq"]
    return any(re.search(pattern, name) for pattern in patterns)


def _is_converted(network: Any) -> bool:
    from transformers.conversion_mapping import extract_weight_conversions_for_model

    return bool(extract_weight_conversions_for_model(network))


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
