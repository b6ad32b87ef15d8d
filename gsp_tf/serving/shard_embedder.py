"""The part of embedding a collection that each worker does."""

import numpy as np

from gsp_tf.serving.batch_embedder import BatchEmbedder
from gsp_tf.serving.embeddings_folder import EmbeddingsFolder, Shard

_BATCH = 512
_MOST_ATTEMPTS = 5


class ShardEmbedder:
    """Writes shards of embeddings of a collection, those that are not there yet.

    Args:
        run: run folder.
        out: folder of embeddings, begun.
        collection: `Collection`.
        threads: as in `BatchEmbedder`.

    Input: dict with `shard`, integers `(n,)`, which shards.

    Output: the same dict, with `problem`, `(n,)` of str: why a shard could not be written, or
    empty.
    """

    def __init__(self, run, out, collection, threads):
        self.embedder = BatchEmbedder(run, threads)
        self.folder = EmbeddingsFolder(out)
        self.collection = collection
        self.metadata = self.folder.metadata()

    def __call__(self, batch):
        problems = [self._try(int(number)) for number in batch["shard"]]
        return {"shard": batch["shard"], "problem": np.array(problems, dtype=str)}

    def _try(self, number):
        if self.folder.shard_path(number).is_file():
            return ""
        try:
            self.folder.begin_attempt(number, _MOST_ATTEMPTS)
            self.folder.write_shard(number, self._shard(number))
            self.folder.end_attempts(number)
        except (ValueError, OSError) as error:
            return f"Shard {number}: {error}"
        return ""

    def _shard(self, number):
        if self.embedder.model.sha256 != self.metadata["model"]["sha256"]:
            raise ValueError(f"the model of {self.embedder.run} changed while it was used.")
        size = self.metadata["shard_size"]
        start, stop = number * size, min((number + 1) * size, self.metadata["images"]["listed"])
        paths, labels, corrupt, done = [], [], [], 0
        embeddings = np.empty((stop - start, self.metadata["dim"]), np.float32)
        for batch in self.collection.batches(start, stop, _BATCH):
            embedded = self.embedder(batch.images)
            read = embedded["problem"] == ""
            rows = list(zip(batch.names, batch.labels, embedded["problem"], strict=True))
            corrupt += [(name, str(problem)) for name, _, problem in rows if problem]
            paths += [name for name, _, problem in rows if not problem]
            labels += [label for _, label, problem in rows if not problem]
            embeddings[done : len(paths)] = embedded["embedding"][read]
            done = len(paths)
        return Shard(paths, labels, embeddings[:done], corrupt)
