"""Criteria that a good answer meets."""
