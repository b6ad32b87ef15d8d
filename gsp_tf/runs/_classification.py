"""Train a backbone as a classifier: the model, and its accuracy."""

import keras
import numpy as np
from keras import ops

from gsp_tf.training import RetrievalEvaluation, embed


def build_classifier_head(features):
    """Global average pooling of the symbolic features of a backbone, in float32."""
    kinds = {3: keras.layers.GlobalAveragePooling1D, 4: keras.layers.GlobalAveragePooling2D}
    return kinds[len(features.shape)](name="pooling", dtype="float32")(features)


def accuracy(classifier, features, labels):
    """The share of features `(N, D)` whose most likely class is their label."""
    logits = ops.convert_to_numpy(classifier.logits(features))
    return float(np.mean(logits.argmax(axis=1) == labels))


class AccuracyEvaluation(RetrievalEvaluation):
    """Adds the accuracy on validation images to the logs of each epoch, as `val_accuracy`."""

    def evaluate(self):
        features, labels = embed(self._forward, self.dataset)
        return {f"{self.prefix}accuracy": accuracy(self.model.embedding_loss, features, labels)}
