"""Data sets: the published ones, the synthetic ones, and a user's own images."""
