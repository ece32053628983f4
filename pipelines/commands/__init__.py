"""The commands of `longline` that need more than a few lines; heavy imports are in functions."""
