# SPDX-License-Identifier: Apache-2.0
"""Tensors of an archive: views of its mapped members."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final

import torch

from delegatec.frontend.pt2.fields import fail, flag, integer, parsed, qualified_name, record, text, union
from delegatec.frontend.pt2.values import description_of, extent, static_sizes
from delegatec.frontend.pt2.zip_reader import MappedZip

# A tensor that repeats its elements may be larger than its member, but not by any factor.
_LARGEST_REPEATED: Final = 2**28


def read_tensors(archive: MappedZip, config: str, folder: str) -> dict[str, torch.Tensor]:
    """Returns the tensors that a member lists, by name.

    Args:
        archive: the mapped archive.
        config: the member with their descriptions.
        folder: the directory of the members with their content.
    """
    payloads = record(parsed(archive.view(config), config).get("config"), "config")
    return {
        qualified_name(key, "name"): _tensor(archive, key, value, folder) for key, value in payloads.items()
    }


def _tensor(archive: MappedZip, key: str, value: Any, folder: str) -> torch.Tensor:
    payload = record(value, key)
    meta = payload.get("tensor_meta")
    if flag(payload.get("use_pickle"), "use_pickle") or meta is None:
        fail(f"{key} is a pickled object; a tensor subclass needs delegatec.export, which stores its tensors")
    dtype, sizes, strides, _ = description_of(meta)
    offset = union(meta["storage_offset"], "storage_offset")
    start = integer(offset[1], "storage_offset", 0)
    view = archive.view(folder + text(payload.get("path_name"), "path_name"), weights=True)
    sizes, strides = static_sizes(sizes, "size of a weight"), static_sizes(strides, "stride of a weight")
    count = extent(sizes, strides)
    if view.nbytes % dtype.itemsize or (count and (start + count) * dtype.itemsize > view.nbytes):
        fail(f"{key} needs {(start + count) * dtype.itemsize} bytes of {view.nbytes}")
    if math.prod(sizes) * dtype.itemsize > max(view.nbytes, _LARGEST_REPEATED):
        fail(f"{key} has {math.prod(sizes)} elements in {view.nbytes} bytes")
    tensor = torch.as_strided(_mapped(view, dtype), sizes, strides, start if count else 0)
    if flag(payload.get("is_param"), "is_param"):
        return torch.nn.Parameter(tensor, requires_grad=False)
    return tensor


def _mapped(view: memoryview, dtype: torch.dtype) -> torch.Tensor:
    if not view.nbytes:
        return torch.empty(0, dtype=dtype)
    with warnings.catch_warnings():
        # torch warns against writes to a tensor on read-only memory; nothing here writes to one.
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(view, dtype=dtype)
