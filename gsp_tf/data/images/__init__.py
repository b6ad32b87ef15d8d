"""Image sets: files decoded to pixels, and what may be wrong with them."""
