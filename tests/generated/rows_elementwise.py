# SPDX-License-Identifier: Apache-2.0
"""Rows of elementwise functions."""

from __future__ import annotations

from typing import Final

_UNARY: Final = (
    "abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2"
    " expm1 floor frac i0 isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2"
    " logical_not logit nan_to_num neg positive rad2deg reciprocal round rsqrt sigmoid sign sgn"
    " sin sinc sinh sqrt square tan tanh trunc conj_physical real resolve_conj absolute arccos arctan"
    " fix"
)
_SPECIAL: Final = (
    "entr erf erfc erfcx exp2 expit expm1 gammaln i0e i1 i1e log1p log_ndtr ndtr ndtri psi round sinc"
    " bessel_j0 modified_bessel_i0"
)
_ACTIVATIONS: Final = (
    "relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardswish hardsigmoid"
    " hardtanh logsigmoid leaky_relu sigmoid tanh hardshrink softshrink"
)
_BINARY: Final = (
    "add sub mul div true_divide maximum minimum fmax fmin atan2 eq ne lt le gt ge logical_and"
    " logical_or logical_xor remainder fmod floor_divide hypot logaddexp logaddexp2 xlogy pow heaviside"
    " isclose rsub float_power nextafter ldexp subtract multiply divide greater less_equal not_equal"
    " special.xlog1py"
)
_OPERATORS: Final = "+ - * / // % ** < <= > >= == !="

ELEMENTWISE: Final = (
    *(f"torch.{name}({{n}})" for name in _UNARY.split()),
    *(f"torch.special.{name}({{f}})" for name in _SPECIAL.split()),
    *(f"F.{name}({{f}})" for name in _ACTIVATIONS.split()),
    *(f"torch.{name}({{n}}, {{n1~}})" for name in _BINARY.split()),
    *(f"({{n}} {sign} {{n1~}})" for sign in _OPERATORS.split()),
    *(f"({{n}} {sign} {{num}})" for sign in _OPERATORS.split()),
    *(f"({{num}} {sign} {{n}})" for sign in ["+", "-", "*", "/", "//", "%", "**"]),
    *(f"({{b}} {sign} {{b1~}})" for sign in ["&", "|", "^", "+", "*", "==", "<"]),
    *(f"({{i}} {sign} {{i1~}})" for sign in ["&", "|", "^"]),
    "-{n}",
    # the sign of NaN is not defined
    "torch.signbit({n}.nan_to_num(1))",
    "torch.copysign({n}, {n1~}.nan_to_num(1))",
    "~{i}",
    "~{b}",
    "torch.bitwise_not({i})",
    "torch.bitwise_and({i}, {int:r(-4, 9)})",
    "torch.bitwise_or({i}, {i1~})",
    "torch.bitwise_xor({i}, {int:r(-4, 9)})",
    "torch.bitwise_left_shift({i}, {i1~}.clamp(-9, 70))",
    "torch.bitwise_right_shift({i}, {i1~}.clamp(-9, 70))",
    "({i} >> {int:r(0, 5)})",
    "({i} << {int:r(0, 5)})",
    "torch.logical_and({t}, {t1~})",
    "torch.logical_not({t})",
    "torch.gcd({i}, {i1~})",
    "torch.lcm({i}.clamp(-20, 20), {i1~}.clamp(-20, 20))",
    "torch.add({n}, {n1~}, alpha={num})",
    "torch.sub({n}, {n1~}, alpha={num})",
    "torch.rsub({n}, {num})",
    "torch.div({n}, {n1~}, rounding_mode={one:'floor'|'trunc'|None})",
    "torch.div({n}, {num}, rounding_mode={one:'floor'|'trunc'|None})",
    "torch.addcmul({n}, {n1~}, {n2~}, value={num})",
    "torch.addcdiv({f}, {f1~}, {f2~}, value={num})",
    "torch.lerp({f}, {f1~}, {num})",
    "torch.lerp({f}, {f1=}, {f2=})",
    "torch.where({b}, {n1~}, {n2~})",
    "torch.where({n} > {num}, {n1~}, {num2})",
    "torch.where({n} > {num}, {num2}, {num3})",
    "torch.where({n} > {num}, {n}, {n1~})",
    "{t}.where({b~}, {num})",
    "torch.clamp({n}, {num}, {num2})",
    "torch.clamp({n}, min={num})",
    "torch.clamp({n}, max={num})",
    "torch.clamp({n}, {n1~}, {n2~})",
    "torch.clamp({n}, min={n1~})",
    "torch.clamp_min({n}, {num})",
    "torch.clamp_max({n}, {n1~})",
    "torch.clip({n}, {num})",
    "torch.nan_to_num({f}, {num}, {num2}, {num3})",
    "torch.round({f}, decimals={int:r(-1, 3)})",
    "torch.logit({f}, {one:0.1|1e-6|None})",
    "torch.polygamma({int:r(0, 3)}, {f})",
    "torch.special.multigammaln({f}.abs() + 3, {int:r(1, 3)})",
    "torch.frexp({f}).mantissa",
    "torch.pow({n}, {num})",
    "torch.pow({num}, {n})",
    "torch.float_power({n}, {num})",
    "torch.square({n})",
    "torch.fmod({n}, {num})",
    "torch.remainder({n}, {num})",
    "torch.remainder({num}, {n})",
    "torch.floor_divide({n}, {num})",
    "torch.eq({t}, {num})",
    "torch.ne({n}, {num})",
    "torch.gt({n}, {num})",
    "torch.le({n}, {num})",
    "torch.isclose({n}, {n1~}, rtol=0.1, atol=0.3, equal_nan={keep})",
    "torch.isin({n}, {n1})",
    "torch.isin({n}, {num})",
    "torch.bucketize({f}, torch.tensor([-1.0, 0.0, 0.5, 2.0]), right={keep})",
    "torch.searchsorted(torch.sort({f@1})[0], {f1})",
    "F.gelu({f}, approximate='tanh')",
    "F.elu({f}, {num})",
    "F.celu({f}, {one:0.5|2.0})",
    "F.leaky_relu({f}, {num})",
    "F.hardtanh({n}, -0.5, 1.5)",
    "F.threshold({n}, {num}, {num2})",
    "F.softplus({f}, beta={one:0.5|2|-1}, threshold={one:1|20})",
    "F.hardshrink({f}, {one:0.25|1})",
    "F.softshrink({f}, {one:0.25|1.0})",
    "F.rrelu({f})",
    "F.prelu({f@2+}, {W:(x.shape[1],)})",
    "F.glu({f@1+}, {dim})",
    "F.dropout({f}, 0.5, training=False)",
    "F.relu({i})",
    "{t}.to({dtype})",
    "{n}.float()",
    "{n}.half()",
    "{n}.bool()",
    "{b}.to({dtype})",
    "{i}.to({dtype})",
    "{f}.nan_to_num(0, 60, -60).clamp({one:0|-60}, 60).to({one:torch.int32|torch.int64|torch.int8})",
    "{f}.nan_to_num(0, 60, -60).clamp(0, 60).to(torch.uint8)",
    "{t}.type_as({t1})",
    "{t}.clone()",
    "{t}.contiguous()",
    "{t}.detach()",
    "torch.conj({f})",
    "torch.dequantize({f})",
    "torch.complex({m}, {m=}).abs()",
    "torch.complex({m}, {m1=}).imag",
    "(torch.complex({m}, {m1=}) * torch.complex({m1=}, {m})).real",
    "torch.polar({m}, {m1=}).real",
    "torch.fake_quantize_per_tensor_affine({m}, 0.1, {int:r(-3, 4)}, -128, 127)",
)
