"""Slack calls emoji by names: these are theirs, where they differ from Unicode's. Pure."""

import unicodedata

_NAMES = {
    "👍": "+1",
    "👎": "-1",
    "👋": "wave",
    "👏": "clap",
    "🙏": "pray",
    "👌": "ok_hand",
    "✌": "v",
    "🤝": "handshake",
    "💪": "muscle",
    "🙌": "raised_hands",
    "👀": "eyes",
    "✅": "white_check_mark",
    "☑": "ballot_box_with_check",
    "✔": "heavy_check_mark",
    "❌": "x",
    "⛔": "no_entry",
    "🚫": "no_entry_sign",
    "⚠": "warning",
    "❗": "exclamation",
    "❓": "question",
    "‼": "bangbang",
    "❤": "heart",
    "💔": "broken_heart",
    "🧡": "orange_heart",
    "💯": "100",
    "🎉": "tada",
    "🎊": "confetti_ball",
    "🔥": "fire",
    "⭐": "star",
    "🌟": "star2",
    "✨": "sparkles",
    "⚡": "zap",
    "💡": "bulb",
    "🚀": "rocket",
    "🤔": "thinking_face",
    "😂": "joy",
    "🤣": "rolling_on_the_floor_laughing",
    "😀": "grinning",
    "😄": "smile",
    "😁": "grin",
    "🙂": "slightly_smiling_face",
    "😉": "wink",
    "😊": "blush",
    "😍": "heart_eyes",
    "😎": "sunglasses",
    "😢": "cry",
    "😭": "sob",
    "😅": "sweat_smile",
    "😮": "open_mouth",
    "😱": "scream",
    "😴": "sleeping",
    "😡": "rage",
    "🤯": "exploding_head",
    "🥳": "partying_face",
    "🤷": "shrug",
    "🤦": "face_palm",
    "🙈": "see_no_evil",
    "👨‍💻": "male-technologist",
    "👩‍💻": "female-technologist",
    "🤖": "robot_face",
    "🦞": "lobster",
    "⏳": "hourglass_flowing_sand",
    "⌛": "hourglass",
    "⏰": "alarm_clock",
    "🔄": "arrows_counterclockwise",
    "🛠": "hammer_and_wrench",
    "🔧": "wrench",
    "📌": "pushpin",
    "📎": "paperclip",
    "📝": "memo",
    "🔍": "mag",
    "🔒": "lock",
    "✍": "writing_hand",
    "☕": "coffee",
    "🍕": "pizza",
    "➕": "heavy_plus_sign",
    "➖": "heavy_minus_sign",
}
_EMOJI = {name: emoji for emoji, name in _NAMES.items()} | {"thumbsup": "👍", "thumbsdown": "👎", "thinking": "🤔"}
_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def to_name(emoji: str) -> str:
    """What Slack calls an emoji; a name of its own, with or without colons, stays. Empty when it has none."""
    text = emoji.strip().replace("\ufe0f", "").rstrip(_TONES)
    if text in _NAMES:
        return _NAMES[text]
    bare = text.strip(":").lower()
    if bare and all(char.isascii() and (char.isalnum() or char in "_+-") for char in bare):
        return bare
    if len(text) != 1:
        return ""
    return unicodedata.name(text, "").lower().replace(" ", "_")


def from_name(name: str) -> str:
    """The emoji that a name of Slack's stands for, or the name between colons."""
    bare = name.partition("::")[0]  # what follows is the colour of a hand
    if bare in _EMOJI:
        return _EMOJI[bare]
    try:
        found = unicodedata.lookup(bare.replace("_", " ").upper())
    except KeyError:
        return f":{bare}:"
    return found if unicodedata.category(found) == "So" else f":{bare}:"
