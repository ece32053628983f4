"""Scores for candidates, one row per dimension and judge."""
