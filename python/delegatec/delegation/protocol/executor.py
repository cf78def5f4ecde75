# SPDX-License-Identifier: Apache-2.0
"""The base class of reference executors, which run blobs on the host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch


class ReferenceExecutor(ABC):
    """Runs a blob as its runtime does.

    Attributes:
        num_inputs: number of inputs of the blob. A program does not store which of a delegate's arguments are
            inputs. If it is None, as by default, it is inferred from the values written before the call; if
            several counts are possible, it is the one that leaves one argument for each output.
        converts_outputs: whether the runtime converts outputs to the dtypes of the caller's tensors. Results
            may then have a dtype that the blob does not have, such as int32 for int64.
        lacks_scalars: whether the runtime's tensors have at least one dimension. A result is then of shape
            [1] if the program's tensor has no dimensions.
        reads_blob: whether the runtime reads the blob after it has loaded the delegate: programs must store
            it inline then, see `PreprocessResult.inline`.
    """

    num_inputs: int | None = None
    converts_outputs: bool = False
    lacks_scalars: bool = False
    reads_blob: bool = False

    def load_named_data(self, named_data: Mapping[str, memoryview]) -> None:  # noqa: B027 - most need none
        """Receives the named data of all delegates of the program, once, before the first run.

        See `PreprocessResult.named_data`.
        """

    @abstractmethod
    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the outputs for inputs, both in order."""
