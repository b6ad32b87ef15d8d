"""Duplicates, leaks and label errors among images; nothing is ever moved or deleted."""
