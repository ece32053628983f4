"""Contexts: which documents stand around the evidence, in which order."""
