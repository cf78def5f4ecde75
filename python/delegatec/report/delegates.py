# SPDX-License-Identifier: Apache-2.0
"""The delegates of a method in the manifest, from the compiler's data structures and from the file itself."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from delegatec.delegation import DelegateSummary, DelegationReport
from delegatec.program.emitted import EmittedMethod
from delegatec.program.reader.model import Delegate, Method
from delegatec.report.estimates import estimate_info
from delegatec.report.file_parts import crc32_text
from delegatec.report.inspection import spec_text
from delegatec.report.manifest import FileInfo
from delegatec.report.methods import DelegateInfo, OperatorCount, Weight


def delegates_of(
    file: FileInfo, method: Method, emitted: EmittedMethod, report: DelegationReport
) -> Iterable[DelegateInfo]:
    """Yields the delegates of a method.

    Args:
        file: the parts of the program's file.
        method: the method in the file.
        emitted: the method as it was written.
        report: of its delegation.
    """
    in_file = {made.name: read for made, read in zip(emitted.delegates, method.delegates, strict=True)}
    for summary in report.delegates:
        module = summary.module
        read = in_file.pop(module.name)
        yield DelegateInfo(
            name=module.name,
            backend=read.id,
            bytes=len(read.blob),
            crc32=_checksum(read, file),
            nodes=sum(summary.operators.values()),
            operators=_counts(summary.operators),
            compile_specs={spec.key: spec_text(spec) for spec in read.compile_specs},
            inputs=summary.input_names,
            outputs=summary.output_names,
            weights=_delegated_weights(summary),
            estimates=estimate_info(module),
        )
    for name, read in in_file.items():  # Delegates of the exported program.
        yield DelegateInfo(
            name=name,
            backend=read.id,
            bytes=len(read.blob),
            crc32=_checksum(read, file),
            nodes=0,
            operators=(),
            compile_specs={spec.key: spec_text(spec) for spec in read.compile_specs},
            inputs=(),
            outputs=(),
            weights=(),
        )


def _counts(calls: Mapping[str, int]) -> tuple[OperatorCount, ...]:
    by_count = sorted(calls.items(), key=lambda item: (-item[1], item[0]))
    return tuple(OperatorCount(name, count) for name, count in by_count)


def _checksum(delegate: Delegate, file: FileInfo) -> str:
    """Returns the checksum of a blob: that of its part of the file if it fills one."""
    if delegate.segment is not None:
        part = file.parts[delegate.segment + 1]  # after the program itself
        if part.bytes == len(delegate.blob):
            return part.crc32
    return crc32_text(zlib.crc32(delegate.blob))


def _delegated_weights(summary: DelegateSummary) -> tuple[Weight, ...]:
    weights = [
        Weight(
            (name,),
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
            tensor.nbytes,
            mutable=False,
        )
        for name, tensor in summary.constants.items()
    ]
    return tuple(sorted(weights, key=lambda weight: (-weight.bytes, weight.names)))
