# SPDX-License-Identifier: Apache-2.0
"""Calls of a model: their inputs, what the model itself returned, and how far a program may be from that."""
