"""`octavo compile --update` against a stand-in hub, each in a process of its own: what is pinned, moved, kept and dropped."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hub_stand_in import TOKEN, hub, info, octavo

from compiler.build.inputs import Inputs
from compiler.build.revisions import LOCK, Reference, lock, text

ONE, TWO, THREE = "1" * 40, "2" * 40, "abc4567890" * 4
MODEL, PROMPTS = "/api/models/owner/model", "/api/datasets/owner/prompts"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def on_hub(work: Path, spec: str) -> str:
    """A spec with model and training prompts on the hub; written, and returned."""
    rows = "{hub: owner/prompts, id: name, prompt: question, config: main, rows: 64}"
    spec = spec.replace("base: octavo/tiny", "base: owner/model").replace("train: {path: data/train.jsonl}", f"train: {rows}")
    spec = spec.replace("row: row-3", "row: {tests: [{arguments: [0], expected: 3}]}")
    assert spec.count("owner/") == 2 and "row: row" not in spec
    (work / "specs/example.yaml").write_text(spec)
    return spec


def pins() -> dict[str, str]:
    return {repository.name: commit for repository, commit in lock(Inputs().document).commits.items()}


def test_pins_what_is_missing_and_compiles(on_hub):
    with hub({MODEL: info(ONE), PROMPTS: info(TWO)}) as stand_in:
        ran = octavo("compile", "example", "--update", endpoint=stand_in.address, HF_TOKEN=TOKEN)
        assert (ran.returncode, pins()) == (0, {"owner/model": ONE, "owner/prompts": TWO})
        assert "owner/model: pinned to 111111111111" in ran.stderr and TOKEN not in ran.stdout + ran.stderr
        assert {token for _, token in stand_in.asked} == {f"Bearer {TOKEN}"}

    card = json.loads(Path("runs/example/shaped-s1/train.card.json").read_text())
    assert card["model"] == {
        "adapter": card["model"]["adapter"], "base": "owner/model", "hub": True, "path": "owner/model",
        "quantization": "none", "revision": ONE,
    }  # fmt: skip
    rows = {"config": "main", "id": "name", "revision": TWO, "split": "train"}
    assert card["data"] == {"hub": "owner/prompts", **rows, "prompt": "question", "rows": 64}
    pipeline = Path("runs/example/dvc.yaml").read_text()
    assert "owner/" not in pipeline and "data/heldout.jsonl" in pipeline, "what lies on the hub is no dependency"
    again = octavo("compile", "example", "--check", endpoint=NOWHERE)
    assert (again.returncode, again.stdout) == (0, ""), "a plain compile needs no network"


def test_keeps_what_is_pinned_and_drops_what_is_unused(on_hub):
    LOCK.write_text(text({Reference("models", "owner/model"): ONE, Reference("datasets", "owner/other"): TWO}))
    Path("specs/pipeline.yaml").write_text("- example\n")
    with hub({MODEL: info(THREE), PROMPTS: info(THREE)}) as stand_in:
        ran = octavo("compile", "--update", endpoint=stand_in.address)
        assert (ran.returncode, pins()) == (0, {"owner/model": ONE, "owner/prompts": THREE})
        assert [path for path, _ in stand_in.asked] == [PROMPTS], "a pinned repository is not asked for"
    assert "owner/other: dropped, no spec names it" in ran.stderr


@pytest.mark.parametrize(
    ("names", "moved"),
    [(["owner/model"], {"owner/model"}), (["example"], {"owner/model", "owner/prompts"}), (["owner/prompts"], {"owner/prompts"})],
)
def test_moves_what_is_named(on_hub, names, moved):
    LOCK.write_text(text({Reference("models", "owner/model"): ONE, Reference("datasets", "owner/prompts"): TWO}))
    Path("specs/pipeline.yaml").write_text("- example\n")
    with hub({MODEL: info(THREE), PROMPTS: info(THREE)}) as stand_in:
        ran = octavo("compile", "--update", *names, endpoint=stand_in.address)
    assert ran.returncode == 0, ran.stderr
    expected = {"owner/model": ONE, "owner/prompts": TWO} | dict.fromkeys(moved, THREE)
    assert pins() == expected
    assert json.loads(Path("runs/example/zero-s2/train.card.json").read_text())["model"]["revision"] == expected["owner/model"]


@pytest.mark.parametrize(
    ("answer", "environment", "code"),
    [
        ({"status": 404, "headers": {"X-Error-Code": "RepoNotFound"}}, {}, "E476"),
        ({"status": 401}, {}, "E476"),
        ({"status": 403}, {}, "E477"),
        ({"status": 502}, {}, "E475"),
        ({"wait": 4, **info(THREE)}, {"HF_HUB_ETAG_TIMEOUT": "1"}, "`owner/prompts`: it did not answer in 1 s"),
        (info(THREE), {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        (info("main"), {}, "E478"),
    ],
)  # fmt: skip
def test_a_refusal_leaves_everything_as_it_was(on_hub, answer, environment, code):
    old = text({Reference("models", "owner/model"): ONE})
    LOCK.write_text(old)
    before = sorted(Path().rglob("*.yaml"))
    with hub({MODEL: info(TWO), PROMPTS: answer}) as stand_in:
        ran = octavo("compile", "--update", "example", endpoint=stand_in.address, HF_TOKEN=TOKEN, **environment)
    assert ran.returncode == 1 and code in ran.stderr and "Traceback" not in ran.stderr and TOKEN not in ran.stderr
    assert LOCK.read_text() == old and sorted(Path().rglob("*.yaml")) == before


def test_without_a_hub_and_with_a_spec_that_does_not_compile_the_lock_stays(on_hub, work):
    ran = octavo("compile", "--update", endpoint=NOWHERE)
    assert ran.returncode == 1 and "E475" in ran.stderr and "no connection" in ran.stderr and not LOCK.exists()
    (work / "specs/example.yaml").write_text(on_hub.replace("max_steps: 12", "max_steps: 0"))
    with hub({MODEL: info(ONE), PROMPTS: info(TWO)}) as stand_in:
        assert octavo("compile", "example", "--update", endpoint=stand_in.address).returncode == 1
    assert not LOCK.exists()


def test_repositories_of_profiles_conditions_and_changes_are_found(work, spec):
    changed = spec.replace("smoke: {", "smoke: {model: {base: owner/small}, ").replace(
        "zero: {reward: {constant: 0.0}, role: null_control}",
        "zero: {reward: {constant: 0.0}, role: null_control, data: {train: {path: null, hub: owner/easy}}}",
    )
    (work / "specs/example.yaml").write_text(changed)
    names = ["owner/easy", "owner/small"]
    answers = {f"/api/{kind}/{name}": info(ONE) for name in names for kind in ("models", "datasets")}
    with hub(answers) as stand_in:
        ran = octavo("compile", "example", "--update", endpoint=stand_in.address)
        assert ran.returncode == 0, ran.stderr
        asked = [path for path, _ in stand_in.asked]
    assert asked == ["/api/datasets/owner/easy", "/api/models/owner/small"]
    assert pins() == {"owner/easy": ONE, "owner/small": ONE}


def test_a_folder_comes_before_the_hub_and_needs_no_lock_and_no_network(work, spec):
    folder = work / "models/mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (work / "specs/example.yaml").write_text(spec.replace("octavo/tiny", "models/mine"))
    ran = octavo("compile", "example", "--update", endpoint=NOWHERE)
    assert (ran.returncode, LOCK.exists()) == (0, False)
    model = json.loads((work / "runs/example/zero-s1/train.card.json").read_text())["model"]
    assert "hub" not in model and model["path"] == "models/mine"


def test_the_text_is_sorted_read_again_and_merged_by_git(work):
    commits = {Reference("models", "b/two"): ONE, Reference("datasets", "c/three"): TWO, Reference("models", "A/one"): "0" * 40}
    written = text(commits)
    assert [line.strip() for line in written.splitlines() if "/" in line and not line.startswith("#")] == [
        f'A/one: "{"0" * 40}"', f'b/two: "{ONE}"', f'c/three: "{TWO}"',
    ]  # fmt: skip
    assert text(dict(reversed(commits.items()))) == written
    LOCK.write_text(written)
    assert pins() == {repository.name: commit for repository, commit in commits.items()}, "a commit of digits alone stays text"

    sides = {name: {Reference("models", f"owner/{name}"): ONE} for name in ("alpha", "beta")}
    for name, more in {"base": {}, **sides}.items():
        Path(name).write_text(text({Reference("models", "owner/base"): TWO, **more}))
    subprocess.run(["git", "merge-file", "--union", "alpha", "base", "beta"], check=True)  # as .gitattributes says
    LOCK.write_text(Path("alpha").read_text())
    assert pins() == {"owner/alpha": ONE, "owner/beta": ONE, "owner/base": TWO}
