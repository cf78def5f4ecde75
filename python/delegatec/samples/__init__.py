# SPDX-License-Identifier: Apache-2.0
"""Calls of a model: their inputs, the results of the model itself, and the tolerances of a program."""
