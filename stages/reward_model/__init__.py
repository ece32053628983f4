"""A model that scores answers."""
