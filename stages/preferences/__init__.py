"""Pairs of a better and a worse answer."""
