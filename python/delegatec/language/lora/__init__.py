# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters (LoRA): layers of a program that has them, and files of their weights."""
