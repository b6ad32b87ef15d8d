"""The classifiers of CIFAR-100 from which Cifar Collage starts, trained by PyTorch in bfloat16.

python experiments/studies/classifier.py experiments/cifar100_classifier.yaml \\
    [--name NAME] [--backbone.name resnetv2_20] [--training.epochs 160] [--threads 2]

`gsp-tf train` trains the same recipe in float32. Where the processor multiplies in bfloat16 a step
takes about half of that here. Images, network, steps, batch size, rate, cosine and decay are those
of the recipe, and the images are flipped and moved by up to 4 pixels. Two things differ: a batch
is drawn from all images instead of from 64 classes, and the decay is of kernels alone. The
training continues from its last epoch. It ends with a run folder in `runs`, with the last weights.
"""

import argparse
from pathlib import Path

import keras
import numpy as np
import torch
import torch.nn.functional as F

from gsp_tf._files import replacing
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run, RunFolder, build_learner, load_splits

SHIFT = 4  # pixels


class Twin(torch.nn.Module):
    """A network of Keras of convolutions, batch normalisation, ReLU and sums, in PyTorch.

    It takes pixels `(B, 3, H, W)` and gives a map `(B, C, H, W)`.
    """

    def __init__(self, network):
        super().__init__()
        self.steps, self.parts, self.keras_layers = [], torch.nn.ModuleList(), []
        for layer in network.layers:
            kind, (node,) = type(layer).__name__, layer._inbound_nodes
            made = getattr(self, f"_{kind}", lambda layer: None)(layer)
            if made is not None:
                self.parts.append(made)
                self.keras_layers.append(layer)
            sources = [tensor._keras_history.operation.name for tensor in node.input_tensors]
            self.steps.append((layer.name, kind, made, sources))
        self.read()

    def _Conv2D(self, layer):
        channels = layer.kernel.shape[2]
        return torch.nn.Conv2d(
            channels, layer.filters, layer.kernel_size, layer.strides, bias=layer.use_bias
        )

    def _BatchNormalization(self, layer):
        return torch.nn.BatchNorm2d(layer.gamma.shape[0], layer.epsilon, 1 - layer.momentum)

    def read(self):
        """Take the weights of the network of Keras."""
        for part, layer in zip(self.parts, self.keras_layers, strict=True):
            for place, value in zip(_places(part), layer.get_weights(), strict=True):
                value = torch.from_numpy(value.copy())
                place.data.copy_(value.permute(3, 2, 0, 1) if value.ndim == 4 else value)

    def write(self):
        """Give the weights to the network of Keras."""
        for part, layer in zip(self.parts, self.keras_layers, strict=True):
            values = [place.detach().float() for place in _places(part)]
            values = [v.permute(2, 3, 1, 0) if v.ndim == 4 else v for v in values]
            layer.set_weights([value.numpy() for value in values])

    def forward(self, images):
        found = {}
        for name, kind, part, sources in self.steps:
            inputs = [found[source] for source in sources]
            if kind == "InputLayer":
                found[name] = images
            elif kind == "Rescaling":
                found[name] = inputs[0] / 127.5 - 1.0
            elif kind == "Conv2D":
                found[name] = part(_padded(inputs[0], part))
            elif kind == "BatchNormalization":
                found[name] = part(inputs[0])
            elif kind == "ReLU":
                found[name] = F.relu(inputs[0])
            elif kind == "Add":
                found[name] = inputs[0] + inputs[1]
            else:
                raise ValueError(f"A Twin has no {kind}, the layer {name}.")
        return found[name]


def _places(part):
    if isinstance(part, torch.nn.Conv2d):
        return [part.weight]
    return [part.weight, part.bias, part.running_mean, part.running_var]


def _padded(x, convolution):
    """Keras' padding "same": what the last window lacks, and the odd pixel at the end."""
    pads = []
    for size, kernel, stride in zip(
        x.shape[:1:-1], convolution.kernel_size[::-1], convolution.stride[::-1], strict=True
    ):
        lacking = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads += [lacking // 2, lacking - lacking // 2]
    return F.pad(x, pads) if any(pads) else x


def pixels_and_labels(images):
    """All images `(N, 32, 32, 3)` of a set, and their labels."""
    return np.stack([images.image(i) for i in range(len(images))]).astype("uint8"), images.labels


def drawn(padded, indices, rng):
    """Images of a batch, moved and flipped."""
    count, side = len(indices), padded.shape[1] - 2 * SHIFT
    rows, columns = rng.integers(0, 2 * SHIFT + 1, (2, count, 1))
    across = np.where(rng.random((count, 1)) < 0.5, np.arange(side)[::-1], np.arange(side))
    rows, columns = rows + np.arange(side), columns + across
    return padded[indices[:, None, None], rows[:, :, None], columns[:, None, :]]


def tensor(pixels):
    moved = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    return moved.float().contiguous(memory_format=torch.channels_last)


class Classifier(torch.nn.Module):
    """Logits of the averaged map."""

    def __init__(self, network, classes):
        super().__init__()
        self.twin, width = Twin(network), network.output.shape[-1]
        self.last = torch.nn.Linear(width, classes)
        torch.nn.init.xavier_uniform_(self.last.weight)
        torch.nn.init.zeros_(self.last.bias)

    def forward(self, images):
        return self.last(self.twin(images).float().mean((2, 3)))


def accuracy(model, pixels, labels):
    model.eval()
    with torch.no_grad():
        parts = np.array_split(pixels, max(1, len(pixels) // 500))
        found = np.concatenate([model(tensor(part)).argmax(1).numpy() for part in parts])
    model.train()
    return float((found == labels).mean())


def train(recipe, folder, threads):
    """Train what the recipe describes, and fill the run folder."""
    torch.set_num_threads(threads)
    torch.manual_seed(recipe.seed)
    keras.utils.set_random_seed(recipe.seed)
    splits, training = load_splits(recipe), recipe.training
    (pixels, labels), validation = map(pixels_and_labels, (splits.train, splits.validation))
    padded = np.pad(pixels, ((0, 0), *[(SHIFT, SHIFT)] * 2, (0, 0)), constant_values=127)
    size = recipe.data.classes_per_batch * recipe.data.images_per_class
    learner = build_learner(recipe, len(splits.train.class_names), 3)
    (network,) = (part for part in learner.embedder.layers if isinstance(part, keras.Model))
    model = Classifier(network, len(splits.train.class_names))
    model.to(memory_format=torch.channels_last)
    kernels = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim == 1]
    groups = [{"params": kernels, "weight_decay": training.l2_regularization}, {"params": others}]
    optimizer = torch.optim.SGD(groups, training.learning_rate, momentum=0.9)
    rng, history, kept = np.random.default_rng(recipe.seed), [], Path(f"{folder.path}.pt")
    if kept.exists():
        state = torch.load(kept, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        history, rng.bit_generator.state = state["history"], state["rng"]
    compiled, steps = torch.compile(model), training.steps_per_epoch
    for epoch in range(len(history), training.epochs):
        passes = -(-steps * size // len(labels))
        order = np.concatenate([rng.permutation(len(labels)) for _ in range(passes)])
        total = 0.0
        for step in range(steps):
            done = (epoch * steps + step) / (training.epochs * steps)
            for group in optimizer.param_groups:
                group["lr"] = training.learning_rate * (1 + np.cos(np.pi * done)) / 2
            chosen = order[step * size : (step + 1) * size]
            with torch.autocast("cpu", torch.bfloat16):
                logits = compiled(tensor(drawn(padded, chosen, rng)))
            loss = F.cross_entropy(logits, torch.from_numpy(labels[chosen]).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        history.append({"loss": total / steps, "val_accuracy": accuracy(model, *validation)})
        print(f"epoch {epoch + 1}: {history[-1]}", flush=True)
        state = dict(model=model.state_dict(), optimizer=optimizer.state_dict(), history=history)
        with replacing(kept) as temporary:
            torch.save({**state, "rng": rng.bit_generator.state}, temporary)
    model.twin.write()
    learner.embedding_loss.kernel.assign(model.last.weight.detach().numpy().T)
    learner.embedding_loss.bias.assign(model.last.bias.detach().numpy())
    fill(folder, recipe, learner, history)


def fill(folder, recipe, learner, history):
    """The run folder of a trained learner, evaluated."""
    folder.start(recipe)
    for epoch, logs in enumerate(history, start=1):
        folder.add_epoch(epoch, logs)
    with replacing(folder.model_path) as temporary:
        learner.save(temporary)
        RunFolder.load(temporary).save(temporary)  # without an optimizer that did not train it
    folder.update_metrics(status="finished", epochs=len(history), best_epoch=len(history))
    print(Run(folder.path).evaluate())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given, options = parser.parse_known_args()
    recipe = load_recipe([given.recipe], options)
    train(recipe, RunFolder(f"runs/{recipe.name}-{recipe.seed}"), given.threads)
