from pathlib import Path

import pytest

from stages.contracts.artifact import ArtifactError
from stages.publish.figures import inlined

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">'


def shown(tmp_path: Path, inside: str) -> str:
    """What a page shows of a picture, inside of its <svg>."""
    path = tmp_path / "curves-a.svg"
    path.write_text(f'<?xml version="1.0"?>\n<!DOCTYPE svg>\n<!-- by hand -->\n{HEAD}{inside}</svg>\n')
    picture = inlined(path)
    assert picture.startswith(HEAD) and picture.endswith("</svg>")
    return picture.removeprefix(HEAD).removesuffix("</svg>")


def test_a_drawing_is_inlined_without_its_head_blank_lines_and_styles(tmp_path: Path) -> None:
    drawing = '\n\n<defs><path id="octavo-curves-a-p1" d="M0 0" style="fill: none; stroke: var(--octavo-c1,#0072b2)"/></defs>\n\n'
    drawing += '<use xlink:href="#octavo-curves-a-p1" clip-path="url(#octavo-curves-a-p1)" transform="rotate(-0 42 190.6)"/>'
    assert shown(tmp_path, drawing).splitlines() == [
        "",
        '<defs><path id="octavo-curves-a-p1" d="M0 0" fill="none" stroke="var(--octavo-c1,#0072b2)"></path></defs>',
        '<use href="#octavo-curves-a-p1" clip-path="url(#octavo-curves-a-p1)" transform="rotate(-0 42 190.6)"></use>',
    ]


@pytest.mark.parametrize(
    ("inside", "left"),
    [
        ("<script>alert(1)</script>", ""),
        ('<path onload="alert(1)"/>', "<path></path>"),
        ("<foreignObject><b/></foreignObject>", ""),
        ('<use href="https://evil.example/x.svg#a"/>', "<use></use>"),
        ('<use xlink:href="#octavo-b"/>', "<use></use>"),
        ("<style>@import 'https://evil.example/a.css';</style>", ""),
        ('<rect fill="url(https://evil.example/a)"/>', "<rect></rect>"),
        ('<rect style="fill: \\75rl(//evil.example)" class="md-overlay"/>', "<rect></rect>"),
        ('<a href="javascript:alert(1)"><text>x</text></a>', "<text>x</text>"),
        ('<desc><p><![CDATA[x><img src=q onerror="alert(1)">]]></p></desc>', ""),
        (
            '<text id="__config">a\n\n``` {#config}\n```\n</text>',
            "<text>a&#10;&#10;&#96;&#96;&#96; &#123;&#35;config&#125;&#10;&#96;&#96;&#96;&#10;</text>",
        ),
        ("<text>not closed", "<text>not closed</text>"),
        (  # each level would draw the one below twice
            '<g id="octavo-curves-a-g"><use id="octavo-curves-a-u" href="#octavo-curves-a-p"/></g>',
            '<g><use href="#octavo-curves-a-p"></use></g>',
        ),
    ],
)
def test_of_a_picture_that_does_more_only_the_drawing_is_left(tmp_path: Path, inside: str, left: str) -> None:
    assert shown(tmp_path, inside) == left


def test_a_file_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.write_text("<p>no picture</p>")
    with pytest.raises(ArtifactError, match="no SVG picture"):
        inlined(path)
