"""Pooling layers: from local features to one vector per image."""
