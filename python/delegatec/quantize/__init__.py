# SPDX-License-Identifier: Apache-2.0
"""Quantization of exported programs after training, with torchao's PT2E: only this package imports torchao.

`settings` and `samples` do not need torchao; `annotate` and `flow` do.
"""
