"""`gsp-tf search`: the neighbours of images."""

from pathlib import Path

from gsp_tf.commands._recipes import require_run


def command(
    run: str,
    images: list[str],
    *,
    index: str | None = None,
    k: int = 10,
    html: str | bool = False,
    mapped: bool | None = None,
):
    """Find the images nearest to given images.

    Finds the images of an index that are nearest to an image, or to each of several.

    Args:
        run: Run folder.
        images: Image files.
        index: What index wrote; null is the folder index in the run.
        k: Number of neighbours of each.
        html: Write a page with their pictures: this file, or search.html in the run.
        mapped: Leave the vectors on disk; null does so if they are more than the memory there is.
    """
    require_run(run)
    from gsp_tf import serving
    from gsp_tf._console import counted
    from gsp_tf.serving import print_neighbours

    opened = serving.open_index(run, index, mapped)
    found = serving.search(run, images, opened, k)
    if k > len(opened):
        print(f"The index holds {counted(len(opened), 'image')}, fewer than --k {k:,}.")
    for image, neighbours in zip(images, found, strict=True):
        print_neighbours(neighbours, image)
    if html is not False:
        page = html or Path(run) / "search.html"
        print(f"Page: {serving.write_neighbours(page, images, found, opened)}")
