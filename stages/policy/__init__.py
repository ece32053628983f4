"""Reinforcement learning of the model that answers."""
