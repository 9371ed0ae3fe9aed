"""What somebody could hand to a reader: a checkpoint, weights, an archive. None runs code or writes elsewhere."""

import ast
import json
import pickle
import re
import struct
import zipfile
from pathlib import Path

import nbformat
import pytest
import torch

from vitbook.grading.submissions import submissions
from vitnb import ViT, ViTConfig, data, weights
from vitnb.checkpoint import save_checkpoint
from vitnb.training import Recipe, fit

ROOT = Path(__file__).resolve().parents[3]
CODE = [
    path
    for folder in ("vitnb", "vitbook", "experiments", "tools", "pages")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
NOTEBOOKS = [*sorted((ROOT / "book").glob("*.ipynb")), *sorted((ROOT / "book" / "solutions").glob("*.ipynb"))]
RECIPE = Recipe(epochs=1, batch_size=64)
CONFIG = ViTConfig(img_size=8, patch_size=4, embed_dim=16, depth=1, num_heads=2)

# What turns data into code. Where one of them stands all the same, it says why it may.
DANGEROUS = {
    ("pickle", "load"), ("pickle", "loads"), ("pickle", "Unpickler"), ("cloudpickle", "load"), ("cloudpickle", "loads"),
    ("joblib", "load"), ("shelve", "open"), ("marshal", "loads"), ("yaml", "load"), ("yaml", "unsafe_load"),
    ("os", "system"), ("os", "popen"), ("tempfile", "mktemp"), ("shutil", "unpack_archive"), ("tarfile", "open"),
    ("hub", "load"),
}  # fmt: skip
# Of XML: names that nobody is asked for. And this machine.
NAMES = ("http://www.w3.org/", "http://www.idpf.org/", "http://purl.org/", "http://127.0.0.1", "http://localhost")
MAY = {
    ("vitbook/grading/_child.py", "cloudpickle.loads"): "in the sandbox, what the grader has sent",
    ("tools/room.py", "packed.extractall"): "the zip that it has just packed; zipfile leads no name out of the folder",
    ("pages/stamp.py", "tarfile.open"): "what git packs of this repository, read in memory",
}


def calls(tree):
    """Each call of a program: (where it is called from, the last two names, the call)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            names = ast.unparse(node.func).split(".")
            yield ".".join(names[-2:]), node


def dangers(name, text):
    """What a program does that could turn data into code or write where it should not."""
    found = []
    for called, node in calls(ast.parse(text)):
        options = {option.arg: ast.unparse(option.value) for option in node.keywords}
        if tuple(called.split(".")) in DANGEROUS and (name, called) not in MAY:
            found.append(f"{name}:{node.lineno}: {called}")
        if called == "torch.load" and options.get("weights_only") != "True":
            found.append(f"{name}:{node.lineno}: torch.load without weights_only=True")
        if called in ("np.load", "numpy.load") and options.get("allow_pickle", "False") != "False":
            found.append(f"{name}:{node.lineno}: numpy unpickles")
        if options.get("shell") == "True":
            found.append(f"{name}:{node.lineno}: a shell reads the command")
        if called.endswith(("extractall", "extract")) and (name, called) not in MAY:
            found.append(f"{name}:{node.lineno}: unpacks names that the archive chose")
    found += [
        f"{name}:{node.lineno}: asks without HTTPS: {node.value}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and re.match(r"(http|ftp)://\w", str(node.value))
        if not str(node.value).startswith(NAMES)
    ]
    return found


def indented(text):
    """A notebook's code with each line of IPython replaced by a pass that stands where it stood."""
    lines = [
        line[: len(line) - len(line.lstrip())] + "pass" if line.lstrip().startswith(("%", "!")) else line
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def test_no_program_of_the_book_turns_data_into_code():
    found = []
    for path in CODE:
        found += dangers(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    for path in NOTEBOOKS:
        cells = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        found += dangers(path.relative_to(ROOT).as_posix(), indented("\n".join(cells)))
    assert found == []
    for name, called in MAY:
        assert called in (ROOT / name).read_text(), f"{name} no longer calls {called}"


@pytest.mark.parametrize(
    "line, words",
    [
        ("torch.load('x.pt')", "without weights_only"),
        ("torch.load('x.pt', weights_only=False)", "without weights_only"),
        ("pickle.load(file)", "pickle.load"),
        ("np.load('x.npy', allow_pickle=True)", "unpickles"),
        ("archive.extractall(folder)", "unpacks"),
        ("subprocess.run(command, shell=True)", "shell"),
        ("torch.hub.load('ann/model', 'vit')", "hub.load"),
        ("urlopen('http://example.org/weights')", "without HTTPS"),
    ],
)
def test_the_search_for_dangers_finds_each(line, words):
    [found] = dangers("one.py", line)
    assert words in found
    assert dangers("one.py", "torch.load('x.pt', weights_only=True)") == []


# ---- A checkpoint that somebody else has made


class Bomb:
    """When it is unpickled it makes a file."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_a_checkpoint_that_holds_code_is_refused_and_runs_nothing(tmp_path):
    digits, mark, path = data.load("digits").subset(64), tmp_path / "ran", tmp_path / "run.pt"
    config = ViTConfig(img_size=digits.train_images.shape[-1], patch_size=4, embed_dim=16, depth=1, num_heads=2)
    fit(ViT(config), digits, RECIPE, checkpoint=path)
    sound = torch.load(path, weights_only=True)
    for planted in (sound | {"history": Bomb(mark)}, sound | {"identity": Bomb(mark)}, Bomb(mark)):
        torch.save(planted, path)
        with pytest.raises(ValueError, match="damaged or no checkpoint"):
            fit(ViT(config), digits, RECIPE, checkpoint=path)
        path.write_bytes(pickle.dumps(planted, protocol=2))  # and as torch wrote files long ago
        with pytest.raises(ValueError, match="damaged or no checkpoint"):
            fit(ViT(config), digits, RECIPE, checkpoint=path)
    assert not mark.exists()
    torch.save(sound | {"history": Bomb(mark)}, path)
    torch.load(path, weights_only=False)
    assert mark.exists(), "the bomb is a dud: the test shows nothing"


def test_weights_are_numbers_and_a_pickle_is_refused(tmp_path):
    path, mark = tmp_path / "model.safetensors", tmp_path / "ran"
    for planted in ({"head.weight": Bomb(mark)}, Bomb(mark)):
        torch.save(planted, path)
        with pytest.raises(ValueError, match="no whole safetensors file"):
            weights.load(path)
        path.write_bytes(pickle.dumps(planted, protocol=2))
        with pytest.raises(ValueError, match="no whole safetensors file"):
            weights.load(path)
    assert not mark.exists()


@pytest.mark.parametrize("length", [2**63, 2**40, 10**9])
def test_a_header_that_announces_more_than_there_is_takes_no_memory(tmp_path, length):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(ValueError, match="no whole safetensors file"):
        weights.load(path)


def test_weights_with_a_config_of_somebody_elses_making_build_no_other_class(tmp_path):
    """The config is JSON: names and numbers, of which ViTConfig knows all or refuses."""
    path = tmp_path / "model.safetensors"
    weights.save(ViT(CONFIG), path)
    blob = path.read_bytes()
    [size] = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + size])
    config = json.loads(header["__metadata__"]["vitnb.config"])
    for changed in (
        config | {"__class__": "os.system"},
        config | {"depth": "__import__('os')"},
        config | {"depth": -1},
    ):
        header["__metadata__"]["vitnb.config"] = json.dumps(changed)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + blob[8 + size :])
        with pytest.raises((TypeError, ValueError)):
            weights.load(path)


def test_every_stored_weight_of_the_repository_is_safetensors():
    stored = [path for path in ROOT.rglob("*") if ".venv" not in path.parts and "_build" not in path.parts]
    kinds = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin", ".npy", ".npz", ".joblib", ".h5", ".onnx")
    assert [path for path in stored if path.suffix in kinds] == []
    assert [path for path in stored if path.suffix == ".safetensors"]


# ---- An archive that somebody else has packed


def zipped(path, entries):
    """A zip with these entries: (name, content, mode) with the mode of a link for a link."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in entries:
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return path


def test_a_zip_whose_names_lead_elsewhere_writes_nothing_there(tmp_path):
    empty = json.dumps(nbformat.v4.new_notebook())
    names = ["../../out.ipynb", "/tmp/out.ipynb", "..\\out.ipynb", "C:\\out.ipynb", "a/../../../out.ipynb", "ok.ipynb"]
    inside = tmp_path / "inside"
    inside.mkdir()
    path = zipped(inside / "all.zip", [(name, empty, 0o644) for name in names])
    before = {one for one in tmp_path.rglob("*")}
    with submissions(path) as found:
        files = [notebook for one in found for notebook in one.notebooks]
        assert len(files) == len(names)
        assert len({file.parent for file in files}) == 1  # all in the folder that was made for them
    assert {one for one in tmp_path.rglob("*")} == before
    assert not Path("/tmp/out.ipynb").exists()


def test_a_link_in_a_zip_is_its_text_and_leads_nowhere(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text("a secret")
    path = zipped(tmp_path / "all.zip", [("ann.ipynb", str(secret), 0o120777)])
    with submissions(path) as [one]:
        [file] = one.notebooks
        assert not file.is_symlink() and file.read_text() == str(secret)


def test_a_bomb_in_a_zip_is_left_when_it_has_grown_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr("vitbook.grading.submissions.LARGEST", 1 << 20)
    path = zipped(tmp_path / "all.zip", [("ann.ipynb", bytes(200 << 20), 0o644)])
    assert path.stat().st_size < 1 << 20
    read = []
    monkeypatch.setattr(zipfile.ZipExtFile, "read", counting(zipfile.ZipExtFile.read, read))
    with submissions(path) as [one]:  # told to its author's teacher, at no cost for the others
        assert sum(notebook.stat().st_size for notebook in one.notebooks) <= (1 << 20) + 1
    assert 0 < sum(read) <= (1 << 20) + 1


def counting(method, read):
    """A method that returns bytes, noting how many."""

    def counted(self, count=-1):
        blob = method(self, count)
        read.append(len(blob))
        return blob

    return counted


def test_a_checkpoint_is_not_written_through_a_link(tmp_path):
    """Whoever can write beside it cannot make us write through a link of theirs: the name is taken by a new file."""
    victim, path = tmp_path / "victim", tmp_path / "run.pt"
    victim.write_text("precious")
    path.symlink_to(victim)
    save_checkpoint(path, {"identity": {}})
    assert victim.read_text() == "precious" and not path.is_symlink()
    assert path.read_bytes()[:2] == b"PK"
