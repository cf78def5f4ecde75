# SPDX-License-Identifier: Apache-2.0
"""The shared framework of backends, independent of their formats.

A backend supplies rows, dtypes, limits and their reasons. `row`, `table` and `constraints` describe
operators, `partitioner` groups the nodes that a table supports, `constants` and `liveness` serve graph
builders, `reference` serves reference executors, and `pages` and `testing` serve docs and tests.
"""
