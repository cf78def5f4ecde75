# SPDX-License-Identifier: Apache-2.0
"""The shared framework of backends: nothing in it knows a format.

A backend supplies rows, dtypes, limits and their reasons. `row`, `table` and `constraints` describe
operators, `partitioner` takes what a table supports, `constants` and `liveness` serve graph builders,
`reference` serves reference executors, and `pages` and `testing` serve docs and tests.
"""
