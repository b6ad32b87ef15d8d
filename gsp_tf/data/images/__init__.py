"""Image sets, image decoding, and checks of image files."""
