"""Measures shared by stages: answer metrics and confidence intervals."""
