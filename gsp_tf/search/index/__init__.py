"""Nearest-neighbour indexes of embedded images, and search in them."""
