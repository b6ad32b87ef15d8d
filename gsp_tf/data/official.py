"""What the loaders of published data sets share: where the files come from, and what they hold."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gsp_tf._console import bulleted, counted
from gsp_tf.data.download import Remote, download_file
from gsp_tf.data.image_set import FileImages, ImageSet
from gsp_tf.data.left_out import LeftOut
from gsp_tf.data.readable import find_unreadable

Counts = Mapping[str, tuple[int, int]]


class Source(NamedTuple):
    """Where a data set comes from.

    Args:
        name: What it is called.
        page: Its official page.
        content: What of it has to lie in the user's folder.
        remotes: The files that can be downloaded; none if it has to be fetched by hand.

    Example:
        >>> Source("Birds", "https://example.org", "birds.txt").where("data")
        'Birds needs birds.txt in data; it has to be fetched by hand from https://example.org.'
    """

    name: str
    page: str
    content: str
    remotes: tuple[Remote, ...] = ()

    def where(self, folder: str | os.PathLike) -> str:
        """Says what to put where, and how to get it."""
        way = (
            f"get it from {self.page} or have it downloaded (download=True, --data.download true)"
            if self.remotes
            else f"it has to be fetched by hand from {self.page}"
        )
        return f"{self.name} needs {self.content} in {folder}; {way}."

    def obtain(self, folder: str | os.PathLike, may_download: bool) -> Path:
        """Makes sure that the files that can be downloaded are there.

        Args:
            folder: The user's folder.
            may_download: Whether to download what is missing.

        Returns:
            The folder.

        Raises:
            FileNotFoundError: If something is missing and may not be downloaded.
            OSError: If it cannot be downloaded.
            ValueError: If what was downloaded is broken.
        """
        folder = Path(folder)
        for remote in self.remotes:
            if may_download and not (folder / remote.target).exists():
                download_file(remote, folder)
            self.require(folder, folder / remote.target)
        return folder

    def require(self, folder: str | os.PathLike, path: str | os.PathLike) -> None:
        """Raises `FileNotFoundError`, which says what to put where, if a path does not exist."""
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path} does not exist. {self.where(folder)}")

    def check_counts(
        self, folder: str | os.PathLike, sets: Mapping[str, ImageSet], counts: Counts
    ) -> None:
        """Compares what was found with what was published.

        Args:
            folder: The user's folder.
            sets: The sets found.
            counts: For each of them the number of classes and of images.

        Raises:
            ValueError: If they differ; it says by how much and what to do.
        """
        found = {split: (len(images.class_names), len(images)) for split, images in sets.items()}
        wrong = [
            f"{split}: {_counted(found.get(split, (0, 0)))}, expected {_counted(expected)}"
            for split, expected in counts.items()
            if found.get(split) != tuple(expected)
        ]
        if wrong:
            raise ValueError(
                f"{self.name} in {folder} is not what was published:\n{bulleted(wrong)}\n"
                f"Unpack or download it again. {self.where(folder)}"
            )

    def verified(
        self,
        folder: str | os.PathLike,
        sets: Mapping[str, FileImages],
        counts: Counts,
        skip_unreadable: bool,
    ) -> dict[str, FileImages]:
        """Verifies counts, that classes are not shared, and that every listed image is there.

        Images are decoded only with `skip_unreadable`, which takes minutes for the large sets. A
        broken image is else an error when it is used.

        Args:
            folder: The user's folder.
            sets: The sets as the official lists give them.
            counts: For each of them the number of classes and of images.
            skip_unreadable: Whether to decode every image and leave out the broken ones.

        Returns:
            The sets, without the broken images if they were to be left out.

        Raises:
            FileNotFoundError: If listed images are missing.
            ValueError: If a count is off, or training and test images share a class.
        """
        self.check_counts(folder, sets, counts)
        tested = {name for split in sets.keys() - {"train"} for name in sets[split].class_names}
        shared = tested.intersection(sets["train"].class_names)
        if shared:
            raise ValueError(
                f"the lists of {self.name} in {folder} have training and test images of the same "
                f"classes:\n{bulleted(sorted(shared))}\nDownload them again. {self.where(folder)}"
            )
        paths = [path for images in sets.values() for path in images.paths]
        missing = [path for path in paths if not os.path.isfile(path)]
        if missing:
            raise FileNotFoundError(
                f"{len(missing)} of the {len(paths)} images that {self.name} lists are missing:\n"
                f"{bulleted(missing)}\n{self.where(folder)}"
            )
        if not skip_unreadable:
            return dict(sets)
        errors, left_out = find_unreadable(paths), LeftOut()
        left_out.add_unreadable(errors, len(paths))
        left_out.warn(folder)
        unreadable = {error.path for error in errors}
        return {split: _without(images, unreadable) for split, images in sets.items()}


def _counted(counts: tuple[int, int]) -> str:
    return f"{counted(counts[0], 'class', 'classes')} and {counted(counts[1], 'image')}"


def _without(images: FileImages, unreadable: set[str]) -> FileImages:
    kept = [i for i, path in enumerate(images.paths) if path not in unreadable]
    return FileImages(
        [images.paths[i] for i in kept],
        images.labels[kept],
        images.class_names,
        images.groups,
        images.channels,
    )
