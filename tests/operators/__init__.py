# SPDX-License-Identifier: Apache-2.0
"""The catalogue of operators: arguments and tolerances from which tests of kernels and backends draw."""
