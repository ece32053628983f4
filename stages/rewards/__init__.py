"""Rewards of a response: terms at sample and group scope, and how they combine."""
