import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import keras
import numpy as np
import onnxruntime
import processes
import pytest
import tensorflow as tf

import gsp_tf
from gsp_tf._metadata import write_entries
from gsp_tf.data import FileImages
from gsp_tf.export import export_run, runs, verify_export
from gsp_tf.runs import Run, RunFolder, load_splits
from gsp_tf.training import embed

LIMIT = 1e-5


def exported(run, format, folder):
    """An export that says what it is and nothing of where it was made, in another folder."""
    made, maps = folder / "first" / format, format != "keras"
    assert export_run(run.path, format, made, attributes=maps, pooling_weights=maps) == made
    path = shutil.move(made, folder / format)
    metadata = verify_export(path)
    described = json.loads((path / "metadata.json").read_text("utf-8"))
    assert described.pop("seal") and described == dataclasses.asdict(metadata)
    assert metadata.format == format and metadata.name == "digits"
    names = {"embedding"} | ({"attributes", "pooling_weights"} if maps else set())
    assert set(metadata.outputs) == names and metadata.outputs["embedding"] == [None, 8]
    assert metadata.inputs["images"]["shape"] == [None, 16, 16, 3]
    assert ("image_bytes" in metadata.inputs) == (format == "saved_model")
    assert metadata.preprocessing["shorter_side"] == 18
    assert "16/18 of the shorter side" in " ".join(metadata.preprocessing["steps"])
    assert metadata.train_classes == list(load_splits(run.recipe()).train.class_names)
    assert metadata.metrics == run.metrics()
    assert metadata.recipe["data"]["path"] == "images"
    assert metadata.versions["gsp_tf"] == gsp_tf.__version__
    assert ("onnxruntime" in metadata.versions) == (format == "onnx")
    places = [run.path, made.parent, Path(gsp_tf.__file__).parent, Path(tf.__file__).parent]
    for file in path.rglob("*"):
        contents = file.read_bytes() if file.is_file() else b""
        assert not [place for place in places if bytes(place) in contents], file
    return path


@pytest.fixture(scope="session")
def keras_export(run, tmp_path_factory):
    return exported(run, "keras", tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(1).uniform(0, 255, (5, 16, 16, 3)).astype("float32")


@pytest.fixture(scope="module")
def expected(run, images):
    """What the model of the run gives for the images."""
    embedder = run.learner(compile=False).embedder
    pooling = embedder.get_layer("pooling")
    local_features = keras.Model(embedder.input, pooling.input)(images, training=False)
    maps = pooling.attribute_maps(local_features).numpy()
    return {
        "embedding": embedder(images, training=False).numpy(),
        "attributes": maps.sum((1, 2)),
        "pooling_weights": maps.sum(-1),
    }


def check(outputs, expected):
    """Outputs of a batch, and of its first image alone, under names that end in 1."""
    assert set(outputs) == {*expected, *(f"{name}1" for name in expected)}
    for name, values in expected.items():
        np.testing.assert_allclose(outputs[name], values, rtol=0, atol=LIMIT)
        np.testing.assert_allclose(outputs[f"{name}1"], values[:1], rtol=0, atol=LIMIT)


SERVE = """
import sys
sys.modules["gsp_tf"] = None
import numpy as np, tensorflow as tf
model, given, out = sys.argv[1:]
given = np.load(given, allow_pickle=False)
signatures = tf.saved_model.load(model).signatures
assert set(signatures) == {"serving_default", "image_bytes", "images"}
images = tf.constant(given["images"])
outputs = {k: v.numpy() for k, v in signatures["images"](images=images).items()}
outputs |= {k + "1": v.numpy() for k, v in signatures["images"](images=images[:1]).items()}
ends = np.cumsum(given["lengths"])
files = [given["bytes"][e - n : e].tobytes() for e, n in zip(ends, given["lengths"])]
for name, key in (("image_bytes", "of_files"), ("serving_default", "by_default")):
    outputs[key] = signatures[name](image_bytes=tf.constant(files))["embedding"].numpy()
outputs["of_one_file"] = signatures["image_bytes"](tf.constant(files[:1]))["embedding"].numpy()
np.savez(out, **outputs)
try:
    signatures["image_bytes"](tf.constant([files[0], b"GIF89a"]))
except tf.errors.InvalidArgumentError as error:
    print(error)
"""


def test_a_saved_model_serves_what_evaluation_embeds(run, images, expected, tmp_path):
    splits = load_splits(run.recipe())
    assert isinstance(splits.test, FileImages)
    assert {Path(path).suffix for path in splits.test.paths} == {".jpg", ".png"}
    files = [Path(path).read_bytes() for path in splits.test.paths]
    contents, lengths = np.frombuffer(b"".join(files), np.uint8), list(map(len, files))
    np.savez(tmp_path / "given.npz", images=images, bytes=contents, lengths=lengths)
    arguments = exported(run, "saved_model", tmp_path), tmp_path / "given.npz", tmp_path / "out.npz"
    done = processes.run(SERVE, *arguments, folder=tmp_path)
    assert done.returncode == 0, done.output
    assert re.search("Image 1 of the batch.*neither a J", done.output)
    outputs = dict(np.load(tmp_path / "out.npz"))
    embeddings = Run(run.path).test_embeddings().queries
    assert len(embeddings) == len(files) > 4
    np.testing.assert_allclose(outputs.pop("of_files"), embeddings, rtol=0, atol=LIMIT)
    np.testing.assert_allclose(outputs.pop("by_default"), embeddings, rtol=0, atol=LIMIT)
    np.testing.assert_allclose(outputs.pop("of_one_file"), embeddings[:1], rtol=0, atol=LIMIT)
    check(outputs, expected)


SERVE_ONNX = """
import sys
for name in ("gsp_tf", "tensorflow", "keras"):
    sys.modules[name] = None
import numpy as np, onnxruntime
model, given, out = sys.argv[1:]
images = np.load(given)
session = onnxruntime.InferenceSession(model)
names = [output.name for output in session.get_outputs()]
outputs = dict(zip(names, session.run(None, {"images": images})))
outputs |= {k + "1": v for k, v in zip(names, session.run(None, {"images": images[:1]}))}
np.savez(out, **outputs)
"""


def test_onnx_serves_without_tensorflow(run, images, expected, tmp_path):
    np.save(tmp_path / "given.npy", images)
    model = exported(run, "onnx", tmp_path) / "model.onnx"
    arguments = model, tmp_path / "given.npy", tmp_path / "out.npz"
    subprocess.run([sys.executable, "-c", SERVE_ONNX, *arguments], check=True, cwd=tmp_path, env={})
    check(dict(np.load(tmp_path / "out.npz")), expected)


def test_litert_serves_in_the_plain_interpreter(run, images, expected, tmp_path):
    plain = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    path = str(exported(run, "litert", tmp_path) / "model.tflite")
    with pytest.warns(UserWarning, match="ai_edge_litert"):
        interpreter = tf.lite.Interpreter(path, experimental_op_resolver_type=plain)
    serve = interpreter.get_signature_runner()
    for count in (5, 1):
        outputs = serve(images=images[:count])
        assert set(outputs) == set(expected)
        for name, output in outputs.items():
            np.testing.assert_allclose(output, expected[name][:count], rtol=0, atol=LIMIT)


def test_other_files_or_metadata_than_were_written_are_refused(keras_export, tmp_path):
    copy = shutil.copytree(keras_export, tmp_path / "copy")
    metadata = json.loads((copy / "metadata.json").read_text("utf-8"))
    (copy / "more").mkdir()
    (copy / "more/file").write_bytes(b"other")
    with pytest.raises(ValueError, match="missing, not listed or changed.*more/file"):
        verify_export(copy)
    (tmp_path / "secret").write_text("secret")
    (copy / "link").symlink_to(tmp_path)
    (copy / "loop").symlink_to("loop")
    outside = "../secret", "..\\secret", "link/secret", "loop/secret", "\0"
    del metadata["seal"]
    for listed, message in (
        *(({name: "0"}, "a file outside of its folder") for name in outside),
        ({str(tmp_path / "secret"): "0"}, "a file outside of its folder"),
        (["embedder.keras"], "metadata.json is damaged: sha256 is"),
        (None, "metadata.json is damaged: sha256 is"),
        ({"embedder.keras": 1}, "metadata.json is damaged: sha256 is"),
    ):
        write_entries(copy / "metadata.json", metadata | {"sha256": listed})
        with pytest.raises(ValueError, match=message):
            verify_export(copy)
    for text in ("{", "[]", "[" * 100_000, "{}"):
        (copy / "metadata.json").write_text(text)
        with pytest.raises(ValueError, match="metadata.json is damaged"):
            verify_export(copy)


def test_what_a_format_cannot_hold_is_refused(make_run, tmp_path, monkeypatch):
    def determinants(self, features):
        return keras.ops.det(keras.ops.transpose(features, (0, 3, 1, 2)))

    folder = make_run("--pooling.name", "gap")
    weighing = "GlobalAveragePooling2D.*no pooling weights.*CBAM.*, GeneralizedSum"
    attributing = "no attributes.*these have: (GeneralizedSum(Max|Mean|)Pooling[,.] ?){3}"
    for format, outputs, message in (
        ("onnx", {"pooling_weights": True}, weighing),
        ("saved_model", {"attributes": True}, attributing),
        ("keras", {"attributes": True}, "holds the layers themselves"),
        ("tflite", {}, "one of saved_model, onnx, litert, keras; received 'tflite'"),
    ):
        with pytest.raises(ValueError, match=message):
            export_run(folder.path, format, tmp_path / "out", **outputs)
    monkeypatch.setattr(keras.layers.GlobalAveragePooling2D, "call", determinants)
    with pytest.raises(ValueError, match="cannot be written as LiteRT.*MatrixDeterminant"):
        export_run(folder.path, "litert", tmp_path / "out")
    assert os.listdir(tmp_path) == ["run"]


def test_a_model_file_that_holds_code_is_named(run, tmp_path):
    folder = RunFolder(shutil.copytree(run.path, tmp_path / "run"))
    with zipfile.ZipFile(folder.model_path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    config = json.loads(parts["config.json"])
    other = {"module": "os", "class_name": "function", "config": "system"}
    config["config"]["embedder"] = {**other, "registered_name": "system"}
    parts["config.json"] = json.dumps(config)
    with zipfile.ZipFile(folder.model_path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    with pytest.raises(ValueError) as caught:
        export_run(folder.path, "keras", tmp_path / "out")
    assert str(caught.value).startswith(f"{folder.model_path} is damaged, or of other versions")
    images = keras.Input((16, 16, 3))
    keras.Model(images, keras.layers.Lambda(lambda x: x)(images)).save(folder.model_path)
    with pytest.raises(ValueError, match="Lambda.*arbitrary code"):
        export_run(folder.path, "keras", tmp_path / "out")
    assert os.listdir(tmp_path) == ["run"]


def test_generalized_max_pooling_is_served_by_litert_and_not_by_onnx(make_run, tmp_path, images):
    folder = make_run("--pooling.name", "generalized_max")
    with pytest.raises(ValueError, match="cannot be written as ONNX.*Cholesky"):
        export_run(folder.path, "onnx", tmp_path / "out")
    assert os.listdir(tmp_path) == ["run"]
    out = export_run(folder.path, "litert", tmp_path / "out")
    expected = folder.learner(compile=False).embedder(images, training=False)
    served = runs._read_litert(out)(images)["embedding"]
    np.testing.assert_allclose(served, expected, rtol=0, atol=LIMIT)


def test_two_outputs_and_gelu_in_onnx(make_run, tmp_path, images):
    head = "{name: coded_residual, num_prototypes: [4, 2], hidden_dim: 8}"
    folder = make_run("--pooling.name", "gap", "--head", head, "--embedding.second_dim", "6")
    out = export_run(folder.path, "onnx", tmp_path / "out")
    session = onnxruntime.InferenceSession(out / "model.onnx")
    (embedding,) = session.run(None, {"images": images})
    expected, _ = embed(folder.learner(compile=False).embedder, [(images, tf.range(5))])
    np.testing.assert_allclose(embedding, expected, rtol=0, atol=LIMIT)


def test_a_model_that_deviates_is_not_written(run, tmp_path, monkeypatch):
    read = runs._FORMATS["keras"].read

    def read_deviating(folder):
        assert folder != tmp_path / "out"
        assert not (tmp_path / "out").exists()
        return lambda images: {name: x + 2e-5 for name, x in read(folder)(images).items()}

    deviating = runs._FORMATS["keras"]._replace(read=read_deviating)
    monkeypatch.setitem(runs._FORMATS, "keras", deviating)
    with pytest.raises(ValueError, match=r"deviates by 2.\de-05 in embedding, more than 1e-05"):
        export_run(run.path, "keras", tmp_path / "out")
    assert os.listdir(tmp_path) == []
