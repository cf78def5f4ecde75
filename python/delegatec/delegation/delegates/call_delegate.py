# SPDX-License-Identifier: Apache-2.0
"""`call_delegate`: the operator that calls a delegate in a graph, supported by all of torch's tracing.

A graph calls it with the `get_attr` node of a `LoweredModule` and the delegate's inputs, and unpacks its
results by `operator.getitem`. It is a higher-order operator because schemas do not support modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final, Protocol

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    track_tensor_tree,
)
from torch.utils import _pytree as pytree

_NAME: Final = "delegatec_call_delegate"


class Callee(Protocol):
    """The interface of a delegate, a `LoweredModule`, for `call_delegate`."""

    def infer(self, mode: FakeTensorMode, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """See `Original.infer`."""
        ...

    def run(self, *inputs: Any) -> tuple[torch.Tensor, ...]:
        """Runs it on real tensors."""
        ...


class CallDelegate(HigherOrderOperator):
    """Calls a delegate. There is one instance, `call_delegate`."""

    def __init__(self) -> None:
        super().__init__(_NAME)  # type: ignore[no-untyped-call]

    def __call__(self, lowered: Callee, *inputs: Any) -> tuple[torch.Tensor, ...]:
        """Runs a delegate, or traces the call.

        Args:
            lowered: the delegate.
            *inputs: its inputs, in order: tensors, and scalars that are symbolic in a graph.

        Returns:
            Its outputs, in order. They have no gradients.
        """
        return super().__call__(lowered, *inputs)  # type: ignore[no-any-return, no-untyped-call]


call_delegate: Final = CallDelegate()


@call_delegate.py_impl(DispatchKey.CompositeExplicitAutograd)
def _run(lowered: Callee, *inputs: Any) -> tuple[torch.Tensor, ...]:
    return lowered.run(*inputs)


@call_delegate.py_autograd_impl
def _without_gradients(lowered: Callee, *inputs: Any) -> tuple[torch.Tensor, ...]:
    with torch._C._AutoDispatchBelowAutograd():
        return call_delegate(lowered, *inputs)


@call_delegate.py_impl(FakeTensorMode)
def _infer(mode: FakeTensorMode, lowered: Callee, *inputs: Any) -> tuple[torch.Tensor, ...]:
    with mode:
        return lowered.infer(mode, inputs)


@call_delegate.py_functionalize_impl
def _functionalize(context: Any, lowered: Callee, *inputs: Any) -> Any:
    unwrapped = context.unwrap_tensors(inputs)
    with context.redispatch_to_next():
        return context.wrap_tensors(call_delegate(lowered, *unwrapped))


@call_delegate.py_impl(ProxyTorchDispatchMode)
def _trace(mode: ProxyTorchDispatchMode, lowered: Callee, *inputs: Any) -> Any:
    with disable_proxy_modes_tracing():
        outputs = call_delegate(lowered, *inputs)
    tracer: Any = mode.tracer
    name = next((name for name, module in tracer.root.named_modules() if module is lowered), None)
    if name is None:
        name = tracer.get_fresh_qualname("lowered")
        tracer.root.register_module(name, lowered)
    proxies = pytree.tree_map(tracer.unwrap_proxy, (tracer.create_proxy("get_attr", name, (), {}), *inputs))
    call = tracer.create_proxy("call_function", call_delegate, proxies, {}, name="call_delegate")
    return track_tensor_tree(outputs, call, constant=None, tracer=tracer)


def allow_strict_export() -> None:
    """Registers `call_delegate` with torch's bytecode tracer, if that is loaded.

    The tracer has its own table of operators. Loading it takes a second; torch.export has loaded it.
    """
    if "torch._dynamo.variables.higher_order_ops" not in sys.modules:
        return
    from torch._dynamo.variables import higher_order_ops

    table: dict[str, Any] = higher_order_ops._hop_name_to_variable_class
    if _NAME not in table:
        table[_NAME] = _variable_class()


def _variable_class() -> Callable[..., Any]:
    from torch._dynamo.utils import get_fake_value
    from torch._dynamo.variables import higher_order_ops
    from torch._dynamo.variables.builder import wrap_fx_proxy

    class CallDelegateVariable(higher_order_ops.TorchHigherOrderOperatorVariable):
        """Adds the call to the traced graph unchanged."""

        _HOP_NAME = f"torch.ops.higher_order.{_NAME}"

        def _call_function(self, tx: Any, args: Any, kwargs: Any) -> Any:
            assert not kwargs, "call_delegate does not accept keyword arguments"
            lowered = args[0].value
            attribute = tx.output.register_static_attr_and_return_proxy("lowered", lowered)
            proxies = tuple(argument.as_proxy() for argument in args[1:])
            values = pytree.tree_map_only(torch.fx.Proxy, lambda p: get_fake_value(p.node, tx), proxies)
            with tx.fake_mode or nullcontext():
                outputs = call_delegate(lowered, *values)
            call = tx.output.create_proxy("call_function", self.value, (attribute, *proxies), {})
            return wrap_fx_proxy(tx=tx, proxy=call, example_value=outputs)

    return CallDelegateVariable
