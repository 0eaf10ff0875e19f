"""Texts that stand as bare strings below the keys of a class, for reference pages and for tests that each key has one."""

import ast
import inspect
import textwrap


def attribute_texts(owner: type) -> dict[str, str]:
    """Key -> the text below it in the source, without its indent."""
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts: dict[str, str] = {}
    for key, text in zip(body.body, body.body[1:], strict=False):
        value = text.value if isinstance(text, ast.Expr) else None
        is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name) and is_text:
            texts[key.target.id] = inspect.cleandoc(value.value)
    return texts
