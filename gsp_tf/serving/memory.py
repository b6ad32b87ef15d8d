"""How much memory there is."""

import os
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")


def available_memory():
    """Bytes that a program can still use, as Linux estimates them; elsewhere all that there are.

    Returns:
        int.

    Example:
        >>> available_memory() > 1e6
        True
    """
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text().splitlines():
            name, value = line.split(":")
            if name == "MemAvailable":
                return 1024 * int(value.split()[0])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
