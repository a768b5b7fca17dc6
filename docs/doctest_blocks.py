"""Shows the runnable examples of docstrings as code: their lines up to the next blank one become a fenced block."""

import re

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", flags=re.DOTALL | re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Fence every example."""

    def on_object(self, *, obj, **_):
        """Rewrite one docstring."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
