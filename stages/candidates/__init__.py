"""Sampled answers."""
