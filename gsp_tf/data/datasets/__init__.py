"""Data sets: published ones, synthetic ones, and a user's own images."""
