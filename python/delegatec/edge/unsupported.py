# SPDX-License-Identifier: Apache-2.0
"""Unsupported operators of torch.ops.aten, and operators that only delegates run, with replacements.

`tests/oracle/coverage_test.py` checks that these are rejected, and that all others run.
"""

from __future__ import annotations

from typing import Final

_INSTEAD: Final = {
    """
    cholesky cholesky_inverse cholesky_solve linalg_cholesky_ex linalg_inv_ex linalg_solve_triangular
    linalg_lu_solve linalg_matrix_exp triangular_solve _linalg_det _linalg_slogdet _linalg_solve_ex
    """: "matrices of static size, from 1 x 1 to 32 x 32",
    """
    geqrf linalg_eig linalg_householder_product linalg_ldl_factor_ex linalg_ldl_solve linalg_lu
    linalg_lu_factor_ex linalg_pinv linalg_qr lu_unpack ormqr
    _linalg_eigh _linalg_svd
    """: "a factorization computed outside the model, or of constants; for small matrices, inv, solve, det "
    "or cholesky",
    """
    i0 igamma igammac polygamma special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
    special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_u
    special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_h
    special_hermite_polynomial_he special_i0e special_i1 special_i1e special_laguerre_polynomial_l
    special_legendre_polynomial_p special_modified_bessel_i0 special_modified_bessel_i1
    special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0
    special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
    special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
    special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_zeta
    """: "a polynomial or a lookup table; calls on constants are folded at build time",
    "bincount": "one_hot and a sum, for values of a known range",
    "_unique2 unique_consecutive unique_dim": "sort and a comparison of adjacent elements",
    "_histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors histogram": "histc",
    """
    _batch_norm_with_update _batch_norm_with_update_functional _native_batch_norm_legit
    _native_batch_norm_legit_functional batch_norm instance_norm native_batch_norm
    """: "the model in eval mode",
    """
    _linear_cross_entropy_batch_chunked _linear_cross_entropy_batch_chunked_no_reduction
    """: "the same loss without chunks",
    "fractional_max_pool2d fractional_max_pool3d": "max_pool2d or adaptive_max_pool2d",
    "rrelu_with_noise_functional": "leaky_relu, or rrelu of the model in eval mode",
    "embedding_renorm": "an embedding without max_norm, with weights scaled before export",
    "as_strided_scatter": "slice_scatter, select_scatter, diagonal_scatter or index_put",
    "resize": "view, reshape, or torch.nn.functional.pad",
    "_to_sparse": "dense tensors",
    "segment_reduce": "scatter_reduce",
    "gcd lcm": "remainder, if one operand is constant",
    "frexp": "log2 and exp2",
    "nextafter": "multiplication by 1 + eps of the dtype",
    "hash_tensor": "a sum",
    """
    _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward avg_pool2d_backward avg_pool3d_backward
    max_pool3d_with_indices_backward
    """: "inference operators",
}  # fmt: skip

# Name of an operator, without its overload -> its replacement.
UNSUPPORTED: Final[dict[str, str]] = {
    name: instead for names, instead in _INSTEAD.items() for name in names.split()
}

DELEGATES_ONLY: Final[dict[str, str]] = dict.fromkeys(
    ("block_scaled_linear", "block_scaled_conv2d"),
    "TOSA graphs with the extensions mxfp and mxfp_conv",
)
