# SPDX-License-Identifier: Apache-2.0
"""The XNNPACK delegate: kernels for CPUs, run by the XNNPACK runtime of ExecuTorch."""
