# SPDX-License-Identifier: Apache-2.0
"""The contents of a program, as a tree of names and values: for comparisons, and for tests to record.

A tree is a dict of dicts; its leaves are ints and strings. Names that contain "bytes" are sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from delegatec.report.inspection import DelegateContents, MethodContents, ProgramContents, TensorContents
from delegatec.report.manifest import Manifest
from delegatec.report.methods import Argument, DelegateInfo, MethodInfo, OperatorCount, Weight

Facts = dict[str, Any]

# Flags whose effect is among the options and the methods' backends.
_ELSEWHERE: Final = ("--backend=", "--method-backend=", "--option=")


def facts_of_manifest(manifest: Manifest) -> Facts:
    """Returns the facts of a manifest about a program, without checksums, names of nodes and offsets."""
    return {
        "file": {"bytes": manifest.file.bytes, **_parts((p.kind, p.bytes) for p in manifest.file.parts)},
        "options": {name: _option(value) for name, value in manifest.options.items()},
        "flags": {flag: "" for flag in manifest.flags if not flag.startswith(_ELSEWHERE)},
        "methods": {method.name: _method(method) for method in manifest.methods},
        "constant methods": {
            method.name: ", ".join(each.name for each in method.outputs)
            for method in manifest.constant_methods
        },
        "weights": _weights(manifest.weights),
    }


def origin_of(manifest: Manifest) -> Facts:
    """Returns the inputs of a program's build: the compiler, wheels that it could import, and files."""
    return {
        "built with": {
            "compiler": manifest.compiler,
            **{wheel.name: wheel.version for wheel in manifest.wheels},
            **{f"{each.role} {each.name}": each.sha256 for each in manifest.inputs},
        }
    }


def facts_of_file(contents: ProgramContents) -> Facts:
    """Returns the facts that a program's file alone determines. Constants of kernels have no names there."""
    return {
        "file": {"bytes": contents.bytes, **_parts((part.kind, part.bytes) for part in contents.parts)},
        "methods": {method.name: _contents(method) for method in contents.methods},
        "named data": {
            # segments follow the program
            key: f"{contents.parts[segment + 1].bytes} B"
            for key, segment in contents.named_data.items()
        },
    }


def checksums_of_file(contents: ProgramContents) -> Facts:
    """Returns the hashes of a program's delegates, as a tree that matches both of the others."""
    return {
        "methods": {
            method.name: {
                "delegates": {
                    _delegate_key(index, delegate.backend): {"sha256": delegate.sha256}
                    for index, delegate in enumerate(method.delegates)
                }
            }
            for method in contents.methods
        },
    }


def merged(first: Facts, second: Facts) -> Facts:
    """Returns the union of two trees; the second one's leaves have precedence."""
    result = dict(first)
    for name, value in second.items():
        below = result.get(name)
        result[name] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _method(method: MethodInfo) -> Facts:
    reasons = Counter(f"{each.operator}: {each.rule} ({each.backend})" for each in method.not_delegated)
    return {
        "backends": ", ".join(method.backends) or "portable",
        "inputs": _arguments(method.inputs),
        "outputs": _arguments(method.outputs),
        "nodes": method.nodes,
        "nodes delegated": method.nodes_delegated,
        "instructions": method.instructions,
        "delegates": {
            _delegate_key(index, each.backend): _delegate(each) for index, each in enumerate(method.delegates)
        },
        "kernels": _counts(method.kernels),
        "not delegated": dict(sorted(reasons.items())),
        "memory": {
            "arena bytes": method.memory.arena_bytes,
            "lower bound bytes": method.memory.lower_bound_bytes,
            "storages": len(method.memory.storages),
        },
    }


def _delegate(delegate: DelegateInfo) -> Facts:
    estimates = delegate.estimates
    return {
        "bytes": delegate.bytes,
        "settings": dict(delegate.compile_specs),
        "nodes": delegate.nodes,
        "operators": _counts(delegate.operators),
        "inputs": len(delegate.inputs),
        "outputs": len(delegate.outputs),
        "weights": _weights(delegate.weights),
        "estimates": {} if estimates is None else dict(estimates.totals),
    }


def _contents(method: MethodContents) -> Facts:
    return {
        "inputs": {str(index): _tensor(value) for index, value in enumerate(method.inputs)},
        "outputs": {str(index): _tensor(value) for index, value in enumerate(method.outputs)},
        "instructions": method.instructions,
        "delegates": {
            _delegate_key(index, each.backend): _delegate_contents(each)
            for index, each in enumerate(method.delegates)
        },
        "kernels": _counts(method.kernels),
        "memory": {
            "arena bytes": sum(method.arena_bytes),
            "tensors": method.planned,
        },
        "constants": {"tensors": method.constants, "bytes": method.constant_bytes},
        "external": {value.name: _tensor(value) for value in method.external},
        "state": {value.name or str(index): _tensor(value) for index, value in enumerate(method.state)},
    }


def _delegate_contents(delegate: DelegateContents) -> Facts:
    return {"bytes": delegate.bytes, "settings": dict(delegate.compile_specs)}


def _delegate_key(index: int, backend: str) -> str:
    return f"{index} {backend}"


def _parts(parts: Iterable[tuple[str, int]]) -> Facts:
    sizes: Counter[str] = Counter()
    for kind, size in parts:
        sizes[f"{kind} bytes"] += size
    return dict(sizes)


def _arguments(arguments: Iterable[Argument]) -> Facts:
    return {f"{index} {each.path or each.name}": _tensor(each) for index, each in enumerate(arguments)}


def _tensor(value: Argument | TensorContents) -> str:
    if not value.shape and value.layout == "":
        return f"{value.dtype} {value.name}"
    bound = " (upper bound)" if value.dynamic else ""
    layout = "" if value.layout in ("", "contiguous") else f" {value.layout}"
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]{bound}{layout}"


def _weights(weights: Iterable[Weight]) -> Facts:
    return {
        ", ".join(weight.names): f"{weight.dtype}[{', '.join(map(str, weight.shape))}], {weight.bytes} B"
        + ", mutable" * weight.mutable
        + ", external" * weight.external
        for weight in sorted(weights, key=lambda weight: weight.names)
    }


def _counts(counts: Iterable[OperatorCount]) -> Facts:
    return {each.name: each.count for each in sorted(counts, key=lambda each: each.name)}


def _option(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
