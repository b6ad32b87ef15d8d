"""`gsp-tf index`: build, change, verify or compare indexes of embeddings."""

from pathlib import Path
from typing import Literal

from gsp_tf._numbers import Count, PositiveShare, Size
from gsp_tf.runs import is_run, run_folder


def command(
    folder: str,
    *,
    out: str | None = None,
    kind: Literal["exact", "sq8", "hnsw", "hnsw_sq8", "ivf_sq8", "ivf_pq"] | None = None,
    metric: Literal["euclidean", "cosine"] | None = None,
    rescore: Literal["sq8", "vectors"] | None = None,
    dim: Size | None = None,
    table: str | None = None,
    add: str | None = None,
    replace: str | None = None,
    delete: list[str] = (),
    verify: bool = False,
    compare: bool = False,
    recall: PositiveShare | None = None,
    sample: Count | None = None,
):
    """Build, change or verify a nearest-neighbour index of embeddings, or compare the kinds.

    Args:
        folder: Folder that embed wrote, or a run or a pretrained network, such as
            efficientnet_lite0 or the recipe of one, whose images embed has embedded; or vectors
            from elsewhere: Parquet files with the column embedding, .npz or .npy, or an index that
            has its vectors. With --add, --replace, --delete or --verify the index, or its run.
        out: Folder to write; null is the folder index in the run, where there is one. With
            --compare, folder for comparison.csv and comparison.png; null only prints.
        kind: exact; sq8, codes of a byte per dimension; hnsw and hnsw_sq8, a graph of vectors or
            codes; ivf_sq8 and ivf_pq, codes in lists. Null is exact up to 100,000 images, ivf_sq8
            up to 5,000,000, ivf_pq above.
        metric: Distance; null is that of the embeddings, or euclidean.
        rescore: Take more candidates from a compressed kind and order them by codes of a byte per
            dimension, or by the vectors; these stay on disk.
        dim: Keep this many components of the embeddings, normalised again (MatryoshkaLoss).
        table: CSV or Parquet file with the column path and metadata of the images, for search
            --where, beside those of the embeddings; also of the images that --add or --replace
            adds.
        add: Add the images of this folder of embed, or of other embeddings as for building.
        replace: Add them, and remove older ones with the same paths.
        delete: Remove images by their file paths; with --add or --replace in one step.
        verify: Compare the files of the index with their checksums, and change nothing.
        compare: Measure recall, bytes and time of every kind on these vectors, and recommend one.
        recall: With --compare, the recall at 10 that is enough; null is 0.95.
        sample: With --compare, number of vectors to read, at random if there are more; null is
            100,000.
    """
    from gsp_tf._console import counted
    from gsp_tf.search import Index, build_index, change_index, verify_index

    changes = _given(add, replace, delete or None)
    building, comparing = _given(kind, metric, rescore, dim), _given(recall, sample)
    if verify and (changes or building or comparing or _given(out, table) or compare):
        raise ValueError("--verify takes an index and no other option.")
    if compare and (changes or _given(kind, rescore, table)):
        raise ValueError(
            "--compare takes --out, --metric, --dim, --recall and --sample, and changes nothing."
        )
    if comparing and not compare:
        raise ValueError("--recall and --sample are for --compare; give it too.")
    folder = _folder_of(folder, "index" if verify or changes else "embeddings")
    if verify:
        count = verify_index(folder).count
        print(f"{folder}: {counted(count, 'image')}; the files have their checksums")
        return
    if compare:
        _compare(folder, out, recall, sample, metric, dim)
        return
    if not changes:
        options = {"rescore": rescore, "dim": dim, "table": table}
        index = build_index(folder, out, kind, metric, **options)
    else:
        if out is not None or building:
            raise ValueError(
                "--out, --kind, --metric, --rescore and --dim are for building an index, not for "
                "changing one."
            )
        if add is not None and replace is not None:
            raise ValueError("Give --add or --replace, not both; --replace adds new images too.")
        index = Index(folder)
        added = add if replace is None else replace
        if table is not None and added is None:
            raise ValueError("--table has metadata of added images; give --add or --replace too.")
        change_index(index, added, delete, replace_known=replace is not None, table=table)
    metadata = index.metadata
    vectors = sum(segment.vectors.bytes for segment in metadata.segments)
    what = f"{metadata.kind}, {metadata.metric}"
    if metadata.rescore is not None:
        what = f"{metadata.kind}, rescored by {metadata.rescore}, {metadata.metric}"
    if metadata.embedding_dim is not None:
        what += f", {metadata.dim} of {metadata.embedding_dim} dimensions"
    print(
        f"{index.path}: {counted(len(index), 'image')}, {what}; "
        f"{sum(file.bytes for file in metadata.files):,} bytes ({vectors:,} of vectors); "
        f"{metadata.recall}"
    )


def _folder_of(path, name):
    """A path, or of a run, and of what names a pretrained network, its folder of that name."""
    if Path(path).suffix in (".yaml", ".yml"):
        path = run_folder(path)
    elif not Path(path).exists() and (":" in path or Path(path).name == path):
        from gsp_tf import backbones

        if path.partition(":")[0] in backbones.names():
            path = run_folder(path)
    return str(Path(path, name)) if is_run(path) else path


def _given(*options):
    """The options that are not null."""
    return [option for option in options if option is not None]


def _compare(folder, out, recall, sample, metric, dim):
    """Print the comparison of the kinds, and write it to a folder if there is one."""
    from rich.console import Console
    from rich.table import Table

    from gsp_tf.search import compare_indexes

    options = {"recall": recall, "most_vectors": sample, "metric": metric, "dim": dim}
    options = {name: value for name, value in options.items() if value is not None}
    found = compare_indexes(folder, **options)
    of = f"{found.vectors:,} vectors of {found.dim} dimensions"
    if found.is_sample:
        of += f", a random sample of {found.count:,}"
    title = f"{of}; {found.queries} other ones search"
    table = Table(title=title, caption="* on the Pareto curve of recall, memory and time")
    for heading in ("index", "R@1", "R@10", "bytes", "on disk", "ms", "build s", ""):
        table.add_column(heading, justify="left" if heading in ("index", "") else "right")
    for index in found.indexes:
        table.add_row(
            index.name,
            *(f"{100 * share:.1f}" for share in (index.recall_at_1, index.recall_at_10)),
            *(f"{size:,.0f}" for size in (index.memory_bytes, index.disk_bytes)),
            f"{index.milliseconds:.3f}",
            f"{index.build_seconds:.1f}",
            "*" if index.is_on_curve else "",
            style="bold" if index == found.recommended else None,
        )
    Console().print(table)
    best = found.recommended
    why = f"the least memory with Recall@10 of {100 * found.recall:g} % or more"
    if best.recall_at_10 < found.recall:  # only exact
        why = "which misses only vectors that are as near as those it finds"
    print(
        f"Recommended: {best.options}, {why}: {best.memory_bytes:,.0f} bytes per vector, "
        f"{100 * best.recall_at_10:.1f} %, {best.milliseconds:.3f} ms per query."
    )
    if out is not None:
        print(f"Written: {', '.join(map(str, _write(found, title, Path(out))))}")


def _write(found, title, folder):
    """Write a comparison as CSV and PNG; the paths of the files."""
    from gsp_tf._files import replacing
    from gsp_tf.visual import index_curve

    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "comparison.csv", folder / "comparison.png"
    found.write(paths[0])
    with replacing(paths[1]) as temporary:
        index_curve(found.indexes, title).savefig(temporary, format="png", dpi=120)
    return paths
