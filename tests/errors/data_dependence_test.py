# SPDX-License-Identifier: Apache-2.0
"""The remedy for a data-dependent model fits its cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model

X, ONE = torch.rand(4, 3), torch.tensor(1)


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def assigned(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[i] = 1.0
    return x


def branched(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x
    elif x.amax() > 1:
        return x + 1
    return -x


def looped(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    for _ in range(n.item()):  # type: ignore[arg-type]
        x = x + 1
    return x


def repeated(x: torch.Tensor) -> torch.Tensor:
    while x.sum() < 9:
        x = x + 1
    return x


def checked(x: torch.Tensor) -> torch.Tensor:
    assert x.sum() > 0
    return x


def attention(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = TRANSFORMER(x, x, tgt_mask=mask)
    return result


TRANSFORMER = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
MASK = torch.nn.Transformer.generate_square_subsequent_mask(4)


@pytest.mark.parametrize(
    ("function", "inputs", "words"),
    [
        (lambda x: torch.distributions.Normal(x, x).log_prob(x), (X,), "validate_args=False"),
        (lambda x: torch.distributions.Categorical(logits=x).entropy(), (X,), "validate_args=False"),
        (attention, (X.repeat(1, 8)[None, :, :8], MASK), "tgt_is_causal"),
        (assigned, (X, ONE), "result[index.reshape(1)] = value"),
        (branched, (X,), "torch.where, use torch.cond"),
        (lambda x: x if torch.equal(x, x + 1) else -x, (X,), "torch.where, use torch.cond"),
        (lambda x: [x][int(x.argmax())], (X[:1, :1],), "torch.stack(items)[index]"),
        (lambda x: torch.zeros(len(x[x > 0])), (X,), "x.shape[0] instead of len(x)"),
        (looped, (X, ONE), "torch.while_loop"),
        (lambda x, n: sum(x for _ in range(n.item())), (X, ONE), "torch.while_loop"),
        (repeated, (X,), "torch.while_loop"),
        (checked, (X,), "torch._check"),
    ],
)
def test_remedies(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], words: str) -> None:
    with pytest.raises(DelegatecError) as caught:
        export(Model(Function(function), inputs))
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC112" and words in problem.help
