# SPDX-License-Identifier: Apache-2.0
"""Functions of images, and the operations that they become."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from delegatec.backends.xnnpack.testing.operators.case import Case

_G: Final = torch.Generator().manual_seed(0)
X: Final = torch.randn(2, 8, 10, 12, generator=_G)
"""Two images of eight channels."""
LINE: Final = X[:, :, 0]


def _set(module: nn.Module) -> nn.Module:
    """Returns a module whose norms have parameters other than the identity."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d | nn.BatchNorm1d | nn.GroupNorm):
            if not each.affine:
                each.running_mean, each.running_var = torch.rand((2, 8), generator=_G) + 0.5
                continue
            nn.init.uniform_(each.weight, -2, 2, _G)
            nn.init.uniform_(each.bias, generator=_G)
        if isinstance(each, nn.BatchNorm2d | nn.BatchNorm1d):
            each.running_mean, each.running_var = each.bias.detach() - 0.3, each.weight.detach() ** 2 + 0.5
    return module.eval()


def _layer(
    make: Callable[..., nn.Module],
    *args: Any,
    x: Tensor = X,
    expected: str,
    **options: Any,
) -> Case:
    torch.manual_seed(0)
    return Case(_set(make(*args, **options)), (x,), expected)


def _call(
    function: Callable[..., Any], *args: Any, x: Tensor = X, expected: str, rtol: float = 2e-5, **options: Any
) -> Case:
    return Case(lambda tensor: function(tensor, *args, **options), (x,), expected, rtol=rtol)


def _stack(*layers: Callable[[], nn.Module], expected: str) -> Case:
    return _layer(lambda: nn.Sequential(*(layer() for layer in layers)), expected=expected)


_conv: Final = partial(_layer, nn.Conv2d, expected="Transpose Convolution Transpose")
_deep: Final = partial(_layer, nn.Conv2d, groups=8, expected="Transpose DepthwiseConvolution Transpose")
_back: Final = partial(_layer, nn.ConvTranspose2d, expected="Transpose TransposedConvolution Transpose")
_max: Final = partial(_call, f.max_pool2d, expected="Transpose MaxPooling Transpose")
_mean: Final = partial(_call, f.avg_pool2d, expected="Transpose AveragePooling Transpose")
_counted: Final = partial(_mean, expected="Transpose ConstantPad AveragePooling Transpose")
_resized: Final = partial(_call, f.interpolate, expected="Transpose ResizeBilinear Transpose")
_repeated: Final = partial(_call, f.interpolate, expected="Reshape Multiply Reshape")

_CONVOLUTIONS: Final = {
    "convolution": _conv(8, 6, 3),
    "padding, stride, dilation": _conv(8, 6, (3, 2), (1, 2), (2, 1), (2, 3)),
    "no bias": _conv(8, 6, 1, 2, bias=False),
    "one channel": _layer(nn.Conv2d, 1, 4, 3, x=X[:, :1], expected="Reshape Convolution Transpose"),
    "groups": _conv(8, 12, 3, groups=2),
    "depthwise": _deep(8, 8, 3, 1, 1),
    "depthwise, stride, dilation": _deep(8, 8, (5, 3), (2, 1), (2, 4), (1, 2)),
    "depthwise, three outputs each": _deep(8, 24, 3, 2, bias=False),
    "a line": _layer(
        nn.Conv1d, 8, 6, 3, 2, 1, x=LINE, expected="Transpose Reshape Convolution Reshape Transpose"
    ),
    "a line, depthwise": _layer(
        nn.Conv1d,
        *(8, 8, 3, 1, 2, 2, 8),
        x=LINE,
        expected="Transpose Reshape DepthwiseConvolution Reshape Transpose",
    ),
    "transposed": _back(8, 6, 3, 2, 1, 1),
    "transposed, groups": _back(8, 6, (3, 2), (2, 3), (1, 0), (0, 1), groups=2),
    "transposed, dilation": _back(8, 6, 3, 2, 2, 1, dilation=(2, 3)),
    "transposed, each channel": _back(8, 16, 2, 2, groups=8),
    "transposed, much padding": _back(8, 6, 3, 2, 4),
    "transposed, less padding after": _back(8, 6, 3, 1, 1, 1, dilation=2),
    "transposed, blocks": _layer(
        nn.ConvTranspose2d,
        *(8, 6, (3, 2), (3, 2)),
        expected="Transpose FullyConnected Reshape Transpose Reshape Transpose",
    ),
    "transposed, blocks of a row": _layer(
        nn.ConvTranspose2d,
        *(8, 6, (1, 2), (1, 2), 0, 0, 1, False),
        expected="Transpose FullyConnected Reshape Transpose",
    ),
    "transposed, blocks, batch norm and relu": _stack(
        *(partial(nn.ConvTranspose2d, 8, 6, 2, 2), partial(nn.BatchNorm2d, 6), nn.ReLU),
        *(partial(nn.Conv2d, 6, 4, 3),),
        expected="Transpose FullyConnected Reshape Transpose Reshape Convolution Transpose",
    ),
    "transposed, as a convolution": _layer(
        nn.ConvTranspose2d, *(8, 6, 3, 1, 0, 1), dilation=2, expected="Transpose Convolution Transpose"
    ),
    "transposed, a line": _layer(
        nn.ConvTranspose1d,
        *(8, 6, 4, 2, 1),
        x=LINE,
        expected="Transpose Reshape TransposedConvolution Reshape Transpose",
    ),
    "batch norm and relu6": _stack(
        *(partial(nn.Conv2d, 8, 6, 3), partial(nn.BatchNorm2d, 6), nn.ReLU6),
        expected="Transpose Convolution Transpose",
    ),
    "transposed, batch norm and relu": _stack(
        *(partial(nn.ConvTranspose2d, 8, 6, 3, groups=2), partial(nn.BatchNorm2d, 6), nn.ReLU),
        expected="Transpose TransposedConvolution Transpose",
    ),
    "batch norm before": _stack(
        *(partial(nn.BatchNorm2d, 8), nn.ReLU, partial(nn.Conv2d, 8, 6, 3, padding=1)),
        expected="Multiply Add Transpose Convolution Transpose",
    ),
    "zeros around": _stack(
        *(partial(nn.ZeroPad2d, (0, 1, 2, 0)), partial(nn.Conv2d, 8, 6, 3, 2, 1)),
        expected="Transpose Convolution Transpose",
    ),
    "other numbers around": _stack(
        *(partial(nn.ConstantPad2d, (0, 1, 2, 0), 0.5), partial(nn.Conv2d, 8, 6, 3)),
        expected="Transpose ConstantPad Convolution Transpose",
    ),
}

_POOLS: Final = {
    "maxima": _max(3, 2, 1),
    "maxima, ceil": _max(3, 2, 1, ceil_mode=True),
    "maxima of the last row": _max((2, 4), 3, (0, 1), ceil_mode=True),
    "maxima, dilation": _max(3, 1, 1, dilation=2),
    "maxima, dilation, ceil": _max((2, 3), 2, (1, 0), dilation=(3, 2), ceil_mode=True),
    "maxima, apart": _max(2, 3),
    "maxima of one image": _max(3, 2, 1, x=X[0], expected="Reshape Transpose MaxPooling Transpose Reshape"),
    "maxima of lines": _call(
        f.max_pool1d, 3, 2, 1, x=LINE, expected="Reshape Transpose MaxPooling Transpose Reshape"
    ),
    "averages": _mean(2),
    "averages, padding counts": _counted(3, 2, 1),
    "averages, padding does not count": _mean(3, 2, 1, count_include_pad=False),
    "averages, ceil": _counted((3, 2), (2, 3), 1, ceil_mode=True),
    "averages, ceil, padding does not count": _mean((3, 2), (2, 3), 1, True, False),
    "averages, divisor": _mean(
        3, 2, 1, True, True, 7, expected="Transpose ConstantPad AveragePooling Multiply Transpose"
    ),
    "averages of lines": _call(
        f.avg_pool1d, 3, x=LINE, expected="Reshape Transpose AveragePooling Transpose Reshape"
    ),
    "means": _call(f.avg_pool2d, (10, 12), expected="Reshape FullyConnected Reshape"),
    "adaptive averages": _call(f.adaptive_avg_pool2d, (5, 3), expected="Transpose AveragePooling Transpose"),
    "adaptive averages, several sizes": _call(
        f.adaptive_avg_pool2d,
        (4, 6),
        expected="Transpose Slice AveragePooling Slice AveragePooling Concatenate2 AveragePooling Transpose",
    ),
    "adaptive averages, one": _call(
        lambda x: f.adaptive_avg_pool2d(x, 1).flatten(1), expected="Reshape FullyConnected Reshape"
    ),
    "adaptive maxima": _call(f.adaptive_max_pool2d, (5, 1), expected="Transpose MaxPooling Transpose"),
}

_SIZES: Final = {
    "bilinear": _resized(scale_factor=2.0, mode="bilinear"),
    "bilinear, smaller": _resized((4, 5), mode="bilinear"),
    "bilinear, corners": _resized((15, 7), mode="bilinear", align_corners=True),
    "bilinear, corners, one row": _resized((1, 30), mode="bilinear", align_corners=True),
    "linear": _call(
        f.interpolate,
        30,
        x=LINE,
        mode="linear",
        rtol=1e-4,  # the runtime computes sample positions in float32
        expected="Transpose Reshape ResizeBilinear Reshape Transpose",
    ),
    "nearest": _repeated(scale_factor=2.0),
    "nearest, three times and once": _repeated((30, 12)),
    "nearest exact": _repeated((20, 48), mode="nearest-exact"),
    "nearest, of a line": _repeated(36, x=LINE),
    "nearest, fewer": _call(
        f.interpolate, (5, 3), mode="nearest-exact", expected="Reshape Slice Reshape Slice Reshape"
    ),
    "nearest, more and fewer": _call(
        f.interpolate, (5, 36), expected="Reshape Slice Reshape Multiply Reshape"
    ),
    "steps": _call(
        lambda x: x.neg()[:, 1::3, ::2],
        expected="Negate Reshape ConstantPad Reshape Slice Reshape Slice Reshape",
    ),
    "pixel shuffle": _call(
        lambda x: f.pixel_shuffle(x.neg(), 2), expected="Negate Reshape Transpose Reshape"
    ),
    "pixel unshuffle": _call(
        lambda x: f.pixel_unshuffle(x.neg(), 2), expected="Negate Reshape Transpose Reshape"
    ),
}

_CHANNELS: Final = {
    "slopes": _layer(nn.PReLU, 8, init=-0.3, expected="Transpose Prelu Transpose"),
    "slopes of vectors": _layer(nn.PReLU, 12, x=X[0, 0], expected="Prelu"),
    "one slope": _layer(nn.PReLU, expected="LeakyRelu"),
    "group norm": _layer(
        nn.GroupNorm,
        *(2, 8),
        expected="Reshape FullyConnected Reshape FullyConnected Reshape Reshape Subtract Square "
        "Reshape FullyConnected Reshape FullyConnected Reshape Add ReciprocalSquareRoot Multiply Multiply "
        "Add Reshape",
    ),
    "group norm of a convolution": _stack(
        *(partial(nn.Conv2d, 8, 6, 3), partial(nn.GroupNorm, 2, 6), partial(nn.Conv2d, 6, 6, 3)),
        expected="Transpose Convolution Reshape GlobalAveragePooling Reshape FullyConnected Subtract "
        "Square Reshape GlobalAveragePooling Reshape FullyConnected Add ReciprocalSquareRoot Multiply "
        "Reshape Multiply Add Convolution Transpose",
    ),
    "instance norm of a convolution": _stack(
        *(partial(nn.Conv2d, 8, 6, 3), partial(nn.InstanceNorm2d, 6, affine=True)),
        expected="Transpose Convolution Reshape GlobalAveragePooling Reshape Subtract Square Reshape "
        "GlobalAveragePooling Reshape Add ReciprocalSquareRoot Multiply Reshape Multiply Add Transpose",
    ),
    "batch norm": _layer(nn.BatchNorm2d, 8, expected="Multiply Add"),
    "batch norm of lines": _layer(nn.BatchNorm1d, 8, x=LINE, expected="Multiply Add"),
    "batch norm without weights": _layer(nn.BatchNorm2d, 8, affine=False, expected="Multiply Add"),
}

_IMAGES: Final = {
    **{f"convolution-{name}": case for name, case in _CONVOLUTIONS.items()},
    **{f"pool-{name}": case for name, case in _POOLS.items()},
    **{f"size-{name}": case for name, case in _SIZES.items()},
    **{f"channel-{name}": case for name, case in _CHANNELS.items()},
}
CASES: Final[dict[str, Case]] = {
    name.replace(", ", "-").replace(" ", "-"): case for name, case in _IMAGES.items()
}
