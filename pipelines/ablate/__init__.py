"""Ablations: a grid of experiments, each unique stage run once, and an honest comparison."""
