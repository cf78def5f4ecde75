# SPDX-License-Identifier: Apache-2.0
"""Recurrences as transformers calls them: functions of a sequence, for any number of tokens after a state.

Those of the library fix the number of tokens in an export, and some of them begin with zeros.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan_op
from torch.nn import functional

Function = Callable[..., Any]
State = Callable[[tuple[int, ...]], Tensor]
"""Returns the state of a layer before the tokens of a call, given its shape without that of a batch."""


def recurrent_modules(network: nn.Module) -> Iterator[Any]:
    """Yields the modules of a network with recurrences; from now on they call the functions of this file.

    These read the state by `recurrent_state` of the attribute `delegatec_cache` of the module.
    """
    for module in network.modules():
        if not isinstance(module, _Recurrent):
            forward: Any = inspect.unwrap(type(module).forward)
            names = _FUNCTIONS.keys() & {*forward.__code__.co_names}
            if names:
                owner: Any = type(module)
                module.__class__ = _recurrent(owner, forward, frozenset(names))
        if isinstance(module, _Recurrent):
            yield module


@contextmanager
def factors_marked(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Finds linear layers of modules that no call in the scope applies: `delegatec_is_factor` marks them.

    The modules multiply their weights themselves.
    """
    uncalled = {each for module in modules for each in module.children() if isinstance(each, nn.Linear)}
    hooks = [each.register_forward_pre_hook(lambda layer, _: uncalled.discard(layer)) for each in uncalled]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    for layer in uncalled:
        layer.delegatec_is_factor = True  # type: ignore[assignment]


class _Recurrent(nn.Module):
    """A module whose `forward` calls functions of this file in place of those of the library."""


@functools.cache
def _recurrent(owner: type[nn.Module], forward: types.FunctionType, names: frozenset[str]) -> type[nn.Module]:
    """Returns a subclass of a class whose `forward` finds other functions under some names."""

    def with_functions(self: Any, *args: Any, **kwargs: Any) -> Any:
        def state(shape: tuple[int, ...]) -> Tensor:
            result: Tensor = self.delegatec_cache.recurrent_state(self.layer_idx, shape)
            return result

        functions = {name: functools.partial(_FUNCTIONS[name], state) for name in names}
        own = types.FunctionType(
            forward.__code__,
            forward.__globals__ | functions,
            forward.__name__,
            forward.__defaults__,
            forward.__closure__,
        )
        own.__kwdefaults__ = forward.__kwdefaults__
        return own(self, *args, **kwargs)

    members = {"__module__": owner.__module__, "forward": with_functions}
    return type(owner.__name__, (_Recurrent, owner), members)


def _convolution(
    _: State,
    hidden_states: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    **__: Any,
) -> Tensor:
    """Computes a causal convolution of each channel.

    Args:
        hidden_states: the operand at `width` positions before the tokens, and at those of the tokens, float32
            [1, channels, width + n].
        weight: float32 [channels, width].
        bias: float32 [channels].
        activation: applied to the result, as transformers names it.

    Returns:
        float32 [1, channels, n].
    """
    from transformers.activations import ACT2FN

    result = functional.conv1d(hidden_states[..., 1:], weight[:, None], bias, groups=weight.shape[0])
    return result if activation is None else ACT2FN[activation](result)


def _selective_scan(
    state: State,
    hidden_states: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    z: Tensor,
    delta_bias: Tensor,
    **others: Any,
) -> tuple[Tensor, Tensor]:
    """Computes the recurrence of Mamba, one token after the other: an element of the state has its own decay.

    Args:
        state: returns float32 [1, channels, size].
        hidden_states: float32 [1, channels, n].
        dt: float32 [1, channels, n].
        a: float32 [channels, size].
        b: float32 [1, size, n].
        c: float32 [1, size, n].
        z: the gate, float32 [1, channels, n].
        delta_bias: addend of `dt`, float32 [channels].
        **others: with "D", the part of `hidden_states` in the output, float32 [channels].

    Returns:
        The output, float32 [1, channels, n], and the state after the tokens.
    """
    dt = functional.softplus(dt + delta_bias[:, None])

    def step(state: Tensor, dt: Tensor, x: Tensor, b: Tensor, c: Tensor, a: Tensor) -> list[Tensor]:
        after = state * torch.exp(dt[:, None] * a) + x[:, None] * b
        return [after, (after @ c[:, None])[:, 0]]

    # one row for each token
    rows = [each[0].transpose(0, 1) for each in (dt, dt * hidden_states, b, c)]
    after, outputs = scan_op(step, [state(tuple(a.shape))[0]], rows, (a,))
    output = outputs.transpose(0, 1)[None] + hidden_states * others["D"][:, None]
    return output * functional.silu(z), after[None]


def _chunk_scan(
    state: State,
    hidden_states: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    dt_bias: Tensor,
    dt_limit: tuple[float, float] = (0.0, math.inf),
    **others: Any,
) -> tuple[Tensor, Tensor]:
    """Computes the recurrence of Mamba 2, whose heads have one decay each, as products of matrices.

    Args:
        state: returns float32 [1, groups, size, channels of the heads of a group].
        hidden_states: float32 [1, n, heads, channels].
        dt: float32 [1, n, heads].
        a: float32 [heads].
        b: float32 [1, n, groups, size].
        c: float32 [1, n, groups, size].
        dt_bias: addend of `dt`, float32 [heads].
        dt_limit: bounds of `dt` after the addend.
        **others: with "D", the part of `hidden_states` in the output, float32 [heads].

    Returns:
        The output, float32 [1, n, heads, channels], and the state after the tokens.
    """
    dt = functional.softplus(dt + dt_bias)
    if tuple(dt_limit) != (0.0, math.inf):
        dt = dt.clamp(*dt_limit)
    count, heads, groups = hidden_states.shape[1], hidden_states.shape[2], b.shape[2]
    per_group = heads // groups
    before = state((groups, b.shape[3], per_group * hidden_states.shape[3]))[0]
    keys, queries = b[0].transpose(0, 1), c[0].transpose(0, 1)
    values = hidden_states[0] * dt[0, ..., None]
    tokens = torch.arange(count)
    is_before = tokens[None] <= tokens[:, None]
    # logarithms of the decay from the first token to each, and to the last
    steps = dt[0] * a
    decays, last = is_before.to(dt.dtype) @ steps, steps.sum(0, keepdim=True)

    def of_groups(x: Tensor) -> Tensor:
        """Returns values of heads [n, heads, channels] as those of groups."""
        return torch.unflatten(x.flatten(1), 1, (groups, -1)).transpose(0, 1)

    between = decays.transpose(0, 1)[..., None] - decays.transpose(0, 1)[:, None]
    weights = torch.unflatten(torch.where(is_before, between, -torch.inf).exp(), 0, (groups, per_group))
    weights = (weights * (queries @ keys.transpose(1, 2))[:, None]).flatten(0, 1)
    of_tokens = (weights @ values.transpose(0, 1)).transpose(0, 1)
    of_state = torch.unflatten((queries @ before).transpose(0, 1).flatten(1), 1, (heads, -1))
    output = of_tokens + of_state * decays.exp()[..., None] + hidden_states[0] * others["D"][:, None]
    added = keys.transpose(1, 2) @ of_groups(values * (last - decays).exp()[..., None])
    kept = of_groups(last.exp()[..., None].expand(1, heads, hidden_states.shape[3]))
    # callers view it in other shapes
    return output[None].contiguous(), (before * kept + added)[None]


def _delta_rule(
    state: State,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    use_qk_l2norm_in_kernel: bool = False,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Computes the gated delta rule, one token after the other.

    Args:
        state: returns float32 [1, heads, size of keys, size of values].
        query: float32 [1, n, groups, size of keys].
        key: float32 [1, n, groups, size of keys].
        value: float32 [1, n, heads, size of values].
        g: logarithm of the decay, float32 [1, n, heads].
        beta: float32 [1, n, heads].
        use_qk_l2norm_in_kernel: whether queries and keys are normalized.

    Returns:
        The output, float32 [1, n, heads, size of values], and the state after the tokens.
    """
    if use_qk_l2norm_in_kernel:
        query, key = _normalized(query), _normalized(key)
    repeats = value.shape[2] // key.shape[2]
    query, key = (each[0].repeat_interleave(repeats, 1) for each in (query, key))

    def step(
        state: Tensor, query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor
    ) -> list[Tensor]:
        decayed = state * decay[:, None, None]
        added = (value[:, None] - key[:, None] @ decayed) * beta[:, None, None]
        after = decayed + key[:, :, None] * added
        return [after, (query[:, None] @ after)[:, 0]]

    before = state((value.shape[2], key.shape[2], value.shape[3]))[0]
    rows = [query * query.shape[2] ** -0.5, key, value[0], g[0].exp(), beta[0]]
    after, outputs = scan_op(step, [before], rows, ())
    return outputs[None], after[None]


def _normalized(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


# names of the library's functions
_FUNCTIONS: Final[Mapping[str, Function]] = {
    "causal_conv1d_fn": _convolution,
    "mamba2_chunk_scan": _chunk_scan,
    "mamba_selective_scan": _selective_scan,
    "torch_chunk_gated_delta_rule": _delta_rule,
}
