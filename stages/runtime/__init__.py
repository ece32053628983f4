"""What every stage shares: parameters, paths, the context it runs in, seeds and the run log."""
