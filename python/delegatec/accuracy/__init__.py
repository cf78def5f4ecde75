# SPDX-License-Identifier: Apache-2.0
"""The accuracy of a program: a metric of the user over a dataset of the user, next to a baseline program."""
