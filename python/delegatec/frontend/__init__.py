# SPDX-License-Identifier: Apache-2.0
"""The frontend: a user's Python function to a canonical `.pt2`. The only package that runs user code."""
