"""Rules about what lies beside the spec: data files, rows that examples name, the base model and its context."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build.base_models import MADE, BaseModel
from compiler.build.data_files import DataFile
from compiler.build.inputs import UNPINNED, Inputs
from compiler.build.revisions import LOCK, UPDATE, Reference
from compiler.document.node import Node
from compiler.document.validate import key_place
from compiler.language.expand import Expansion, Setup
from compiler.language.experiment import Experiment
from compiler.problems import Fault, nearest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.sampled import SampledSettings


def data_is_there(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Files, rows, prompts, and the rows that examples name."""
    for node, prompt, rows in _data_nodes(of, expansion):
        path, hub = node.get("path"), node.get("hub")
        if hub is not None:
            yield from _pinned(hub, Reference("datasets", hub.value), inputs)
        if path is None:
            continue
        try:
            found = inputs.data(path.value)
        except Fault as fault:
            yield Diagnostic("E313", fault.what, why=fault.why, fix=fault.fix, place=path.place)
            continue
        if rows is not None and rows > len(found.rows):
            written = node.get("rows")
            yield Diagnostic(
                "E317",
                f"`{found.path}` has {len(found.rows)} rows, fewer than {rows}",
                why="fewer prompts than declared would widen every interval in silence",
                fix=f"set `rows: {len(found.rows)}`, or delete the key to use all",
                place=written.place if written else path.place,
            )
        missing = next((name for name, row in found.rows.items() if not isinstance(row.get(prompt), str)), None)
        if missing is not None:
            written = node.get("prompt")
            texts = [key for key, value in found.rows[missing].items() if isinstance(value, str) and key != "id"]
            meant = nearest(prompt, texts) or (texts[0] if texts else None)
            yield Diagnostic(
                "E326",
                f"row `{missing}` of `{found.path}` has no text `{prompt}`",
                why="`prompt` names the key that holds a row's prompt",
                fix=f"set `prompt: {meant}`" if meant else "give every row a prompt",
                place=written.place if written else path.place,
            )
    yield from _prompts_of_a_step(expansion, inputs)
    yield from _example_rows(of, expansion, inputs)


def _pinned(hub: Node, of: Reference, inputs: Inputs) -> Iterator[Diagnostic]:
    """E375, or W376 while a spec is only checked."""
    try:
        if inputs.commit(of) != UNPINNED:
            return
    except Fault as fault:
        yield Diagnostic(fault.code or "E375", fault.what, why=fault.why, fix=fault.fix, place=hub.place)
        return
    yield Diagnostic(
        "W376",
        f"`{of.name}` has no commit in {LOCK.as_posix()} yet",
        why="the spec is right, and cannot be compiled before its hub repositories are pinned; that needs the network, once",
        fix=UPDATE,
        place=hub.place,
        severity="warning",
    )


def _data_nodes(of: Experiment, expansion: Expansion) -> Iterator[tuple[Node, str, int | None]]:
    seen: set[int] = set()
    for setup in expansion.setups:
        if id(setup.data_node) not in seen:
            seen.add(id(setup.data_node))
            yield setup.data_node, setup.data.prompt, setup.data.rows
    evaluation = of.spec.data.evaluation
    if evaluation is not None:
        yield of.node("data", "evaluation"), evaluation.prompt, evaluation.rows


def _prompts_of_a_step(expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    for setup in expansion.setups:
        prompts = setup.train.prompts_per_batch
        try:
            rows = len(inputs.data(setup.data.path).rows)
        except Fault:
            continue
        rows = min(rows, setup.data.rows or rows)
        if prompts > rows:
            written = setup.data_node.get("rows") or setup.data_node.get("path")
            yield Diagnostic(
                "E333",
                f"a generation batch holds {prompts} different prompts, and there are {rows}",
                why="TRL drops batches that are not full, so no step would ever run",
                fix=f"set `gradient_accumulation_steps` or `per_device_train_batch_size` lower, or use at least {prompts} rows",
                place=written.place if written else key_place(setup.data_node),
            )


def _example_rows(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    checked: set[tuple[str, str | None]] = set()
    for setup in expansion.setups:
        name = setup.reward.declared
        if name is None or (name, setup.data.path) in checked:
            continue
        checked.add((name, setup.data.path))
        named = [(index, one.row) for index, one in enumerate(of.spec.rewards[name].examples) if isinstance(one.row, str)]
        if setup.data.path is None:
            yield from (_unread_row(of, name, index, setup) for index, _ in named)
            continue
        try:
            found: DataFile = inputs.data(setup.data.path)
        except Fault:
            continue
        for index, row in named:
            if row not in found.rows:
                meant = nearest(row, found.rows)
                yield Diagnostic(
                    "E312",
                    f"no row `{row}` in `{found.path}`" + (f", did you mean `{meant}`?" if meant else ""),
                    why="gates see an example together with its data row: prompt, tests, answer",
                    fix=f"write `{meant or next(iter(found.rows))}`",
                    place=of.node("rewards", name, "examples", index, "row").place,
                )


def _unread_row(of: Experiment, reward: str, index: int, setup: Setup) -> Diagnostic:
    return Diagnostic(
        "E379",
        f"rows of `{setup.data.hub}` cannot be named here: they are on the hub",
        why="examples are tested at compile time, which never uses the network, so an example brings its row along",
        fix="write the row's columns that gates read: row: {tests: [...]}, or {} for none",
        place=of.node("rewards", reward, "examples", index, "row").place,
    )


def base_model_is_there(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """And prompts with their completions fit into its context."""
    place = of.node("model", "base").place
    try:
        model = inputs.model(of.spec.model.base)
    except Fault as fault:
        yield Diagnostic(fault.code or "E314", fault.what, why=fault.why, fix=fault.fix, place=place)
        return
    if model.hub:
        yield from _pinned(of.node("model", "base"), Reference("models", model.path), inputs)
    yield from _quantized(of, model)
    if model.max_positions is None:
        return
    for setup in expansion.setups:
        if not isinstance(setup.train, SampledSettings):
            continue
        try:
            data = inputs.data(setup.data.path)
        except Fault:
            continue
        yield from _context(setup, setup.train.max_completion_length, data, model.max_positions, of.spec.model.base.startswith(MADE))


def _quantized(of: Experiment, model: BaseModel) -> Iterator[Diagnostic]:
    """bitsandbytes packs NF4 weights on a CPU in blocks of 64; other sizes end the process."""
    if of.spec.model.quantization != "nf4" or of.spec.resources.gpus:
        return
    for name, size in model.sizes:
        if size % 64:
            yield Diagnostic(
                "E380",
                f"`{of.spec.model.base}` has a {name} of {size}, which is no multiple of 64",
                why="on a CPU bitsandbytes keeps NF4 weights in blocks of 64, and fails on other sizes",
                fix="set `quantization: none` or `int8`, use another model, or train on a GPU: resources: {gpus: 1}",
                place=of.node("model", "quantization").place,
            )


def _context(setup: Setup, length: int, data: DataFile, limit: int, made: bool) -> Iterator[Diagnostic]:
    fewest, most = data.prompt_tokens(setup.data.prompt, setup.data.rows)
    written = setup.train_node.get("max_completion_length")
    place = written.place if written else key_place(setup.train_node)
    if length + fewest > limit:
        yield Diagnostic(
            "E309",
            f"a prompt of at least {fewest} tokens and {length} of completion exceed the model's context of {limit}",
            why="positions beyond the context were never trained, or do not exist",
            fix=f"set `max_completion_length: {limit - most}`" if most < limit else "use shorter prompts or a model with a longer context",
            place=place,
        )
    elif made and length + most > limit:
        yield Diagnostic(
            "W305",
            f"a prompt of up to {most} tokens and {length} of completion may exceed the model's context of {limit}",
            why="the longest prompt has so many bytes, and a byte-level tokenizer makes at most one token of each",
            fix=f"set `max_completion_length: {limit - most}`" if most < limit else "use shorter prompts or a model with a longer context",
            place=place,
            severity="warning",
        )


def evaluation_is_held_out(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W310 when evaluation prompts are trained on."""
    evaluation = of.spec.data.evaluation
    if evaluation is None or of.spec.evaluation is None:
        return
    seen: set[str | None] = set()
    for setup in expansion.setups:
        if setup.data.path in seen:
            continue
        try:
            held_out = _prompts(inputs.data(evaluation.path), evaluation.prompt, evaluation.rows)
            trained = set(_prompts(inputs.data(setup.data.path), setup.data.prompt, setup.data.rows))
        except Fault:
            continue
        seen.add(setup.data.path)
        both = [prompt for prompt in held_out if prompt in trained]
        if both:
            yield Diagnostic(
                "W310",
                f"{len(both)} of {len(held_out)} evaluation prompts are also in `{setup.data.path}`",
                why="a policy can learn those answers by heart, so its score says less about prompts that it has not seen",
                fix="take them out of one of the two files",
                place=of.node("data", "evaluation", "path").place,
                severity="warning",
            )


def _prompts(data: DataFile, key: str, rows: int | None) -> list[str]:
    return [text for row in list(data.rows.values())[:rows] if isinstance(text := row.get(key), str)]


RULES = (data_is_there, base_model_is_there, evaluation_is_held_out)
