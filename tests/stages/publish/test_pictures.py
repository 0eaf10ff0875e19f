from pathlib import Path

import pytest

from stages.contracts.artifact import ArtifactError
from stages.publish.figures import inlined

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{}</svg>'


def test_a_plain_drawing_is_inlined_without_its_head_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.write_text('<?xml version="1.0"?>\n<!DOCTYPE svg>\n<!-- by hand -->\n' + SVG.format('\n\n<path d="M0 0"/>\n\n'))
    assert inlined(path) == '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">\n<path d="M0 0"/>\n</svg>'


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        '<path onload="alert(1)"/>',
        "<foreignObject><b/></foreignObject>",
        '<use href="https://evil.example/x.svg#a"/>',
        "<style>@import 'https://evil.example/a.css';</style>",
        '<rect fill="url(https://evil.example/a)"/>',
        '<a href="javascript:alert(1)"><text>x</text></a>',
        "<text>not closed",
    ],
)
def test_a_picture_that_does_more_than_draw_is_refused(tmp_path: Path, inside: str) -> None:
    path = tmp_path / "a.svg"
    path.write_text(SVG.format(inside))
    with pytest.raises(ArtifactError, match="draws and does nothing else"):
        inlined(path)
