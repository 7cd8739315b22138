"""What the terminal chat looks like and says of itself.

The colours are the terminal's own, so light stays light and 16 of them are enough.
"""

from openclaw.version import __version__

STYLE = """
Screen { layout: vertical; }
#rows { height: 1fr; scrollbar-size-vertical: 1; padding: 0 1; }
#rows > * { height: auto; margin: 0 0 1 0; }
.you { border-left: thick ansi_cyan; padding: 0 0 0 1; }
.gateway { color: ansi_bright_black; padding: 0 0 0 2; }
.problem { color: ansi_red; padding: 0 0 0 2; }
.answer { padding: 0 0 0 2; }
.answer Static { height: auto; }
.thought { color: ansi_bright_black; text-style: italic; height: auto; }
.card { border-left: outer ansi_bright_black; padding: 0 0 0 1; }
.card.running { border-left: outer ansi_yellow; }
.card.failed { border-left: outer ansi_red; }
#question { height: auto; border: round ansi_yellow; padding: 0 1; }
#question .title { text-style: bold; color: ansi_yellow; }
#question #command { height: auto; max-height: 8; padding: 0 2; }
#question .about { color: ansi_bright_black; }
#question Horizontal { height: 1; }
#question Button { margin: 0 2 0 0; }
#question Button:focus { text-style: reverse; }
#completions { height: auto; padding: 0 1; }
#composer { height: auto; max-height: 6; border-top: solid ansi_bright_black; padding: 0 1; }
#composer:focus { border-top: solid ansi_blue; }
#status { height: 1; padding: 0 1; color: ansi_bright_black; }
#switcher { width: 90%; max-width: 100; height: 80%; border: round ansi_blue; padding: 0 1; }
#switcher OptionList { height: 1fr; border: none; }
Switcher { align: center middle; }
"""
KEYS = """\
Enter sends, Ctrl+J begins a new line, Up and Down bring back earlier messages, Tab completes a command.
Esc or Ctrl+C stops an answer. Ctrl+C twice, Ctrl+D or /exit leaves; the gateway goes on.
Page Up and Page Down scroll; Ctrl+End goes to the end.
Ctrl+O chooses another conversation, Ctrl+N begins one.
Ctrl+T shows thinking and what tools did, Ctrl+Y copies the last answer.
A question about a command: type y (once), a (always) or n (no) and Enter, or go to the buttons with Tab.
Drop or paste the path of a picture to send it along, or write /image PATH.
What you write while an answer is on its way joins its next step."""


def welcome(address: str, *, offline: bool) -> str:
    """What an empty conversation says."""
    lines = [
        f"OpenClaw {__version__}. Write a message and press Enter. F1 shows the keys.",
        f"In a browser: openclaw dashboard ({address.replace('ws', 'http', 1)}).",
    ]
    if offline:
        lines.append("No model is set up yet; openclaw onboard does it with a few questions.")
    return "\n".join(lines)
