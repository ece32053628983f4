"""Ablations: a grid of overrides whose cells share every stage that they have in common.

`grid` says what varies, `planning` what must be computed once, `cell` runs and keeps one cell as a
DVC experiment, `results` and what follows it compare the arms.
"""
