"""A graph of stages holds together: each file has one producer, and nothing waits for itself."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.build.stage import Pipeline


class GraphError(Exception):
    """The compiler's own fault: two stages write one file, or a stage waits for itself."""


def checked(pipelines: Iterable[Pipeline]) -> tuple[Pipeline, ...]:
    """The same pipelines. Raises GraphError when two stages write one file or a stage waits for itself."""
    found = tuple(pipelines)
    stages = {f"{pipeline.path.as_posix()}:{stage.name}": stage for pipeline in found for stage in pipeline.stages}
    if len(stages) != sum(len(pipeline.stages) for pipeline in found):
        raise GraphError("two stages of one pipeline have one name")
    producer: dict[str, str] = {}
    for name, stage in stages.items():
        for out in stage.outs:
            if out in producer:
                raise GraphError(f"{out} is written by {producer[out]} and by {name}")
            producer[out] = name
    for out in producer:
        parent = out
        while parent := parent.rpartition("/")[0]:
            if parent in producer:
                raise GraphError(f"{out} is written by {producer[out]} inside {parent}, which {producer[parent]} writes")
    waiting = {name: {producer[dep] for dep in stage.deps if dep in producer} for name, stage in stages.items()}
    _no_cycle(waiting)
    return found


def _no_cycle(waiting: dict[str, set[str]]) -> None:
    followers: dict[str, list[str]] = {}
    for name, before in waiting.items():
        for other in before:
            followers.setdefault(other, []).append(name)
    missing = {name: len(before) for name, before in waiting.items()}
    ready = [name for name, count in missing.items() if count == 0]
    done = 0
    while ready:
        name = ready.pop()
        done += 1
        for follower in followers.get(name, ()):
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    if done != len(waiting):
        raise GraphError(f"stages wait for each other: {', '.join(sorted(name for name, count in missing.items() if count))}")
