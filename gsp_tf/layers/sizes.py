"""Checks of sizes that layers are made with."""


def check_sizes(**sizes):
    """Refuse sizes that are no integer of at least 1.

    Args:
        sizes: the sizes by name.

    Raises:
        ValueError: with the name of the first that is none.

    Example:
        >>> check_sizes(num_groups=3, group_dim=170)
    """
    for name, size in sizes.items():
        if size != int(size) or size < 1:
            raise ValueError(f"{name} must be an integer of at least 1, received {size}.")
