"""How much of a tool result a model is shown."""

from msgspec import structs

from openclaw.core.messages import Image, Text
from openclaw.core.tool import Output


def result_cap(context_window: int) -> int:
    """Characters of one tool result, by the size of the model's window."""
    by_size = 64_000 if context_window >= 200_000 else 32_000 if context_window >= 100_000 else 16_000
    return max(1_000, min(by_size, int(context_window * 0.3 * 4)))


def shorten(output: Output, cap: int) -> Output:
    """`output` within `cap` characters; the cut says how much is missing."""
    total = sum(len(block.text) for block in output.content if isinstance(block, Text))
    if total <= cap:
        return output
    if output.end_matters:
        text = output.text
        note = f"[... {len(text) - cap} earlier characters truncated; rerun with narrower args if needed]"
        images = tuple(block for block in output.content if isinstance(block, Image))
        return structs.replace(output, content=(Text(f"{note}\n{text[-cap:]}"), *images))
    left = cap
    content: list[Text | Image] = []
    for block in output.content:
        if isinstance(block, Image):
            content.append(block)
        elif left > 0:
            content.append(Text(block.text[:left]))
            left -= len(block.text)
    note = f"[... {total - cap} more characters truncated; rerun with narrower args if needed]"
    return structs.replace(output, content=(*content, Text(note)))
