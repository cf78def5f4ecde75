# SPDX-License-Identifier: Apache-2.0
"""Loading of checkpoints into modules, with a diagnostic for every mismatched tensor."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping
from typing import Any, Final

import torch

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.arguments import wrong_argument
from delegatec.diagnostics.exceptions import exception_text
from delegatec.files import HEAD_BYTES, kind_of_file
from delegatec.frontend import session
from delegatec.frontend.data import data_path

# torch names the first object that is not allowed.
_GLOBAL: Final = re.compile(r"Unsupported (?:global: GLOBAL|class) ([\w.]+)")


def load_checkpoint(module: torch.nn.Module, name: str) -> torch.nn.Module:
    """Loads the tensors of a checkpoint into a module.

    Args:
        module: the module; names, shapes and dtypes of its parameters and buffers must match the file.
        name: a data file (`data_path`): `.safetensors`, or a state dict written by `torch.save`, which is
            read with `weights_only`, so that the file cannot run code.

    Returns:
        The module.

    Raises:
        DelegatecError: DC415, an argument of the wrong type; DC115, no such data file; DC116, the file cannot
            be read; DC117, one diagnostic for each tensor that is missing, unknown, or of another shape or
            dtype.
    """
    if not isinstance(module, torch.nn.Module):
        raise wrong_argument("delegatec.load_checkpoint", "module", module, "a torch.nn.Module")
    where = session.caller()
    tensors = _read(data_path(name), name, where)
    expected = module.state_dict()
    problems = [*_misfits(expected, tensors, name, where)]
    if problems:
        raise DelegatecError(problems)
    groups = _aliases(expected)
    module.load_state_dict(dict(tensors), assign=True, strict=False)
    # Tied parameters stay tied: files often store them once, and `assign` gives each name its own tensor.
    for names in groups:
        held = [key for key in names if key in tensors]
        for key in names:
            if key not in held or torch.equal(tensors[key], tensors[held[0]]):
                _assign(module, key, _lookup(module, held[0]))
    return module


def _read(path: str, name: str, where: SourceLocation | None) -> Mapping[str, torch.Tensor]:
    try:
        if reason := _other_kind(path):
            raise _unreadable(name, reason, where)
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file

            return load_file(path)
        mapped = zipfile.is_zipfile(path)  # torch.save's current format; older versions wrote a bare pickle.
        content: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except DelegatecError:
        raise
    except Exception as error:  # safetensors, zipfile, pickle and torch each raise their own
        raise _unreadable(name, _reason(error), where) from error
    if _is_state_dict(content):
        result: Mapping[str, torch.Tensor] = content
        return result
    items = content.items() if isinstance(content, Mapping) else ()
    for key, value in items:
        if value and _is_state_dict(value):
            help = f"save that alone: torch.save(checkpoint[{key!r}], path)"
            raise _unreadable(name, f"its state dict is under the key {key!r}", where, help)
    raise _unreadable(name, f"it contains a {type(content).__name__}, not a dict of tensors", where)


def _is_state_dict(content: object) -> bool:
    return isinstance(content, Mapping) and all(isinstance(value, torch.Tensor) for value in content.values())


def _other_kind(path: str) -> str:
    """Returns the kind of a file that is not a checkpoint; empty for a checkpoint."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if path.endswith(".safetensors"):
        return "" if head[8:9] == b"{" else kind_of_file(head)
    if not zipfile.is_zipfile(path):
        truncated = head.startswith(b"PK")
        return "" if head.startswith(b"\x80") else "it is truncated" if truncated else kind_of_file(head)
    with zipfile.ZipFile(path) as archive:
        names = {name.rpartition("/")[2] for name in archive.namelist()}
    if "constants.pkl" in names:
        return "it is a TorchScript file"
    return "" if "data.pkl" in names else "it is a zip file without a state dict"


def _unreadable(
    name: str,
    reason: str,
    where: SourceLocation | None,
    help: str = "save it with safetensors.torch.save_file(module.state_dict(), path)",
) -> DelegatecError:
    return DelegatecError(
        [
            Diagnostic(
                code="DC116",
                message=f"cannot read checkpoint {name}: {reason}",
                location=where,
                expected="a .safetensors file, or a state dict saved with torch.save",
                help=help,
            )
        ]
    )


def _misfits(
    expected: Mapping[str, torch.Tensor],
    found: Mapping[str, torch.Tensor],
    name: str,
    where: SourceLocation | None,
) -> list[Diagnostic]:
    if prefix := _prefix(found, expected):
        text = f'all tensors of checkpoint {name} have the prefix "{prefix}"'
        help = f'save them without it: key.removeprefix("{prefix}")'
        return [Diagnostic("DC117", text, location=where, help=help)]
    if prefix := _prefix(expected, found):
        text = f'checkpoint {name} lacks the prefix "{prefix}" of all tensors of the module'
        help = f"load it into the submodule {prefix.rstrip('.')}"
        return [Diagnostic("DC117", text, location=where, help=help)]
    aliases = {key: names for names in _aliases(expected) for key in names}
    texts = [
        f'checkpoint {name} lacks tensor "{key}" {_form(tensor)}'
        for key, tensor in expected.items()
        if not any(alias in found for alias in aliases.get(key, [key]))
    ]
    texts += [
        f'tensor "{key}" of checkpoint {name} is {_form(found[key])}; the module has {_form(tensor)}'
        for key, tensor in expected.items()
        if key in found and (found[key].shape != tensor.shape or found[key].dtype != tensor.dtype)
    ]
    texts += [
        f'checkpoint {name} has an unknown tensor "{key}" {_form(tensor)}'
        for key, tensor in found.items()
        if key not in expected
    ]
    help = "build the module with the configuration of the checkpoint"
    dtypes = {tensor.dtype for tensor in found.values()}
    if len(dtypes) == 1 and all(
        found[key].shape == tensor.shape for key, tensor in expected.items() if key in found
    ):
        help += f", or convert it: module.to({dtypes.pop()})"
    return [Diagnostic("DC117", text, location=where, help=help) for text in texts]


def _prefix(longer: Mapping[str, object], shorter: Mapping[str, object]) -> str:
    """Returns the prefix of all names of `shorter` in those of `longer`; empty if they differ otherwise."""
    first = next(iter(longer), "")
    for name in shorter:
        prefix = first.removesuffix(name)
        if first != name and prefix != first and longer.keys() == {prefix + key for key in shorter}:
            return prefix
    return ""


def _aliases(tensors: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """Returns the names of each tensor that has several."""
    names: dict[tuple[Any, ...], list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
            names.setdefault(key, []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _lookup(module: torch.nn.Module, name: str) -> Any:
    owner, _, attribute = name.rpartition(".")
    return getattr(module.get_submodule(owner), attribute)


def _assign(module: torch.nn.Module, name: str, value: Any) -> None:
    owner, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(owner), attribute, value)


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"


def _reason(error: Exception) -> str:
    if isinstance(error, pickle.UnpicklingError):
        found = _GLOBAL.search(str(error))
        return f"it is a pickle of {found[1] if found else 'Python objects'}, which reading would run"
    if isinstance(error, IsADirectoryError):
        return "it is a directory"
    if type(error).__name__ == "SafetensorError" or "PytorchStreamReader" in str(error):
        return "it is truncated or damaged"
    return exception_text(error)
