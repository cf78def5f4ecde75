# SPDX-License-Identifier: Apache-2.0
"""Complex values become pairs of real ones that compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.edge.complex.fourier import LONGEST
from delegatec.edge.testing import Function, assert_computes, edge

torch.manual_seed(0)
X: Final = torch.randn(3, 4, 8)
Y: Final = torch.randn(3, 4, 8) + 0.1
EVEN: Final = torch.randn(2, 48)
WINDOW: Final = torch.hann_window(12)


def _both(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function of complex numbers as one of their parts."""
    return lambda real, imag: torch.view_as_real(function(torch.complex(real, imag)))


def _stft(x: torch.Tensor, **options: Any) -> torch.Tensor:
    return torch.stft(
        x, **{"n_fft": 12, "hop_length": 4, "window": WINDOW, "return_complex": True, **options}
    )


def _assigned(z: torch.Tensor) -> torch.Tensor:
    """Writes real and complex values to parts of a spectrum, as Fourier neural operators do."""
    result = torch.zeros(3, 4, 8, dtype=z.dtype)
    result[:, :2, :3] = z[:, 1:3, :3] * 2
    result[:, -1] = X[:, 0]
    result[0] = 2
    result[1, 0, 0] = 1j
    return result


def _scattered(z: torch.Tensor) -> torch.Tensor:
    rows = torch.tensor([0, 2])
    z = z.index_copy(0, rows, z[1:] * 2).index_add(0, rows, z[:2], alpha=2).index_fill(1, rows, 2 + 1j)
    z = z.masked_scatter(X > 0, z.flip(0)).diagonal_scatter(z[0, 0, :3].expand(8, 3), 0, 0, 1)
    return z.scatter(0, rows.view(2, 1, 1), z[1:, :1, :1]).scatter_add(0, rows.view(2, 1, 1), z[1:])


def _there_and_back(x: torch.Tensor, length: int | None = None, **options: Any) -> torch.Tensor:
    options = {"n_fft": 12, "hop_length": 4, "window": WINDOW, **options}
    spectrum = torch.stft(x, return_complex=True, **options)
    return torch.istft(spectrum * spectrum.abs(), length=length, **options)


PARTS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "number": lambda z: (z * (1 + 2j) - 3j) / (0.5 - 1j),
    "real operand": lambda z: (z + X) * X / (1 + X * X),
    "integers": lambda z: z * torch.arange(8) - torch.arange(8),
    "broadcast": lambda z: z + X[0, 0] * 1j + z[:1],
    "quotient": lambda z: z / (z + 1),
    "real over complex": lambda z: 2 / z + X / z,
    "alpha": lambda z: torch.add(z, z, alpha=3) - torch.sub(z, X, alpha=2) + torch.rsub(z, X),
    "conj": lambda z: z.conj() * z + torch.conj_physical(z) + z.conj().clone(),
    "parts": lambda z: torch.complex(z.imag, z.real) * z.abs() + torch.polar(z.abs(), z.angle()),
    "power": lambda z: z**2 + z**3 + z**-1,
    "functions": lambda z: torch.exp(z) + torch.log(z) + torch.sgn(z),
    "matmul": lambda z: z @ z.mT + z @ z.mH + (z @ X.mT.contiguous().to(torch.complex64)),
    "sums": lambda z: z.sum(-1, keepdim=True) * z.mean((0, 1)) + z.cumsum(1),
    "movement": lambda z: torch.cat([z.permute(0, 2, 1).reshape(3, 4, 8), z[:, 1:3].flip(-1)], 1).roll(1, 2),
    "indices": lambda z: z[:, [2, 0]].unsqueeze(1).expand(3, 2, 2, 8)[..., ::2].reshape(3, 2, 2, 2, 2),
    "mixed": lambda z: torch.cat([z, X], 0) + torch.stack([z, z.real], 1).flatten(0, 1),
    "where": lambda z: torch.where(z.real > 0, z, X) * torch.where(z.imag > 0, z, 0),
    "mask": lambda z: z.masked_fill(z.real > 0.5, 2.0),
    "several": lambda z: torch.split(z, 2, 1)[0] * z.chunk(2, 1)[1] + z.unbind(1)[0].unsqueeze(1),
    "made": lambda z: torch.zeros_like(z) + torch.ones(8, dtype=z.dtype) + torch.full((4, 1), 1 + 2j),
    "cast": lambda z: z.to(torch.complex128).to(torch.complex64),
    "fft": lambda z: torch.fft.fft(z, dim=1),
    "ifft": lambda z: torch.fft.ifft(z, n=5, norm="ortho"),
    "fft2": lambda z: torch.fft.ifft2(torch.fft.fft2(z, norm="forward") * 2, dim=(0, 2)),
    "fftn": lambda z: torch.fft.fftshift(torch.fft.fftn(z, norm="ortho")),
    "ihfft": lambda z: torch.fft.ihfft(z.real) + torch.fft.rfft(z.imag, norm="forward"),
    "assigned": _assigned,
    "scattered": _scattered,
    "written": lambda z: (z + 1).mul_(z).add_(1j),
}  # fmt: skip

REAL: Final[dict[str, tuple[Callable[..., Any], torch.Tensor]]] = {
    "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), X),
    "rfft, odd, longer": (lambda x: torch.view_as_real(torch.fft.rfft(x, n=11, norm="ortho")), X),
    "rfft along": (lambda x: torch.view_as_real(torch.fft.rfft(x, dim=1)), X),
    "fft of real": (lambda x: torch.fft.fft(torch.fft.fft(x), dim=-2).real, X),
    "rfft2": (lambda x: torch.view_as_real(torch.fft.rfft2(x, norm="ortho")), X),
    "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * (1 + 1j), n=8), X),
    "irfft, odd": (lambda x: torch.fft.irfft(torch.fft.rfft(x, n=9) * 1j, n=9, norm="ortho"), X),
    "irfft, cut": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * 1j, n=5), X),
    "irfft2": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 1j, norm="forward"), X),
    "hfft": (lambda x: torch.fft.hfft(torch.fft.rfft(x)), X),
    "vector": (lambda x: torch.fft.irfft(torch.fft.rfft(x).conj()), X[0, 0]),
    "float64": (lambda x: torch.fft.rfft(x).abs(), X.double()),
    "integers": (lambda x: torch.fft.rfft(x).abs(), torch.arange(10)),
    "equal": (lambda x: (torch.fft.fft(x) == torch.fft.fft(x.flip(0))) | (torch.complex(x, x) != x), X),
    "stft": (lambda x: _stft(x).abs() ** 2, EVEN),
    "stft, parts": (lambda x: torch.view_as_real(_stft(x, center=False, onesided=False)), EVEN),
    "stft, short window": (
        lambda x: _stft(x, window=WINDOW[:6] + 1, win_length=6, normalized=True, pad_mode="constant").real,
        EVEN[0],
    ),
    "stft, no window": (lambda x: _stft(x, window=None, hop_length=None).imag, EVEN),
    "istft": (_there_and_back, EVEN),
    "istft, length": (lambda x: _there_and_back(x, length=40), EVEN[0]),
    "istft, odd hop": (lambda x: _there_and_back(x, hop_length=5, normalized=True, window=WINDOW + 1), EVEN),
}


@pytest.mark.parametrize("name", PARTS)
def test_operators(name: str) -> None:
    function = _both(PARTS[name])
    _check(function, X, Y)


@pytest.mark.parametrize("name", REAL)
def test_transforms(name: str) -> None:
    function, x = REAL[name]
    _check(function, x)


def _check(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    expected = function(*inputs)
    assert expected.dtype is torch.bool or expected.abs().max() > 0.1
    program = edge(function, *inputs)
    values = [node.meta.get("val") for node in program.graph.nodes]
    assert not any(isinstance(value, torch.Tensor) and value.is_complex() for value in values)
    assert_computes(program, expected, *inputs, atol=2e-5, rtol=1e-4)


class Rotary(torch.nn.Module):
    """Positions as rotations, with a complex buffer, as Llama's reference code has them."""

    freqs_cis: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(16), 10000 ** (-torch.arange(0, 8, 2) / 8))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        turned = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        freqs = self.freqs_cis[: q.shape[1]].view(1, q.shape[1], 1, 4)
        return torch.view_as_real(turned * freqs).flatten(3).type_as(q)


def test_a_complex_buffer_is_two_constants() -> None:
    q = torch.randn(2, 5, 3, 8)
    program = edge(Rotary(), q)
    assert_computes(program, Rotary()(q), q)
    assert all(not value.is_complex() for value in program.constants.values())


def test_conjugated_and_negated_buffers() -> None:
    turn = torch.polar(torch.ones(8), torch.arange(8.0)).conj()

    def function(model: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(x * model.turn + model.angle)

    module = Function(function, turn=turn, angle=turn.imag)
    assert module.get_buffer("turn").is_conj() and module.get_buffer("angle").is_neg()
    assert_computes(edge(module, X), module(X), X)


def test_other_dimensions_may_be_dynamic() -> None:
    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", max=16)
    q = torch.randn(2, 5, 3, 8)
    program = edge(Rotary(), q, dynamic_shapes=({0: batch, 1: length},))
    for sizes in ((2, 5, 3, 8), (4, 9, 3, 8)):
        q = torch.randn(sizes)
        assert_computes(program, Rotary()(q), q)

    def filtered(x: torch.Tensor) -> Any:
        return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x.flip(-1)).conj())

    program = edge(filtered, X, dynamic_shapes=({0: batch},))
    x = torch.randn(7, 4, 8)
    assert_computes(program, filtered(x), x, atol=1e-5)


def test_bodies_of_control_flow() -> None:
    turn = torch.polar(torch.ones(8), torch.arange(8.0))

    def function(x: torch.Tensor) -> Any:
        def yes(x: torch.Tensor) -> Any:
            return (torch.fft.fft(x) * turn).real.contiguous()

        def no(x: torch.Tensor) -> Any:
            return torch.fft.rfft(x, n=14).abs().contiguous()

        return torch.cond(x.sum() > 0, yes, no, (x,))

    for x in (X.abs(), -X.abs()):
        assert_computes(edge(function, X), function(x), x, atol=1e-5)


REJECTED: Final[dict[str, tuple[Callable[..., Any], torch.Tensor, str, str]]] = {
    "operator": (
        lambda x: torch.linalg.svdvals(torch.complex(x, x)),
        X,
        "DC202",
        "aten.linalg_svdvals.default is decomposed",
    ),
    "input": (lambda x: x.real, torch.complex(X, X), "DC202", "input args_0 has complex dtype complex64"),
    "output": (lambda x: torch.fft.fft(x), X, "DC202", "output _fft_r2c_default has complex dtype complex64"),
    "long": (lambda x: torch.fft.rfft(x).abs(), torch.ones(LONGEST + 2), "DC205", f"{LONGEST + 2} elements"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejections_have_a_name_and_a_line(name: str) -> None:
    function, x, code, text = REJECTED[name]
    with pytest.raises(DelegatecError) as caught:
        edge(function, x)
    (problem,) = caught.value.diagnostics
    assert problem.code == code and text in problem.message
    assert name == "input" or problem.location is not None


def test_views_of_dynamic_sizes_that_may_be_1() -> None:
    """torch's cache of fake tensors asks of the view whether a size is 1."""

    def function(x: torch.Tensor) -> Any:
        return torch.view_as_complex(x[..., None].expand(*x.shape, 2).contiguous()).real

    size = torch.export.Dim("size", min=1, max=9)
    program = edge(function, torch.randn(2, 2), dynamic_shapes=({0: size, 1: size},))
    for number in (1, 5):
        x = torch.randn(number, number)
        assert_computes(program, x, x)


def test_a_dynamic_transform_is_rejected_and_all_problems_are_reported() -> None:
    def function(x: torch.Tensor) -> Any:
        wrong = torch.linalg.svdvals(torch.complex(x, x)) * 2
        return wrong, torch.fft.fft(x, dim=0).abs()

    with pytest.raises(DelegatecError) as caught:
        edge(function, X, dynamic_shapes=({0: torch.export.Dim("n", max=8)},))
    assert [problem.code for problem in caught.value.diagnostics] == ["DC202", "DC205"]
    assert "dynamic dimension" in caught.value.diagnostics[1].message
