# SPDX-License-Identifier: Apache-2.0
"""Quantization of exported programs after training, with torchao's PT2E: only this package imports torchao.

`Settings` and `samples` do not need torchao; `quantizer` and `flow` do.
"""
