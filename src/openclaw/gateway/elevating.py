"""`/elevated`: the owner lets the commands of one session out of its sandbox, for a while."""

from openclaw.core.clock import millis
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey
from openclaw.gateway.boxes import said
from openclaw.gateway.desk import SessionService
from openclaw.policy.elevation import LEVELS, refuse_reason, speaker

MEANING = {
    "off": "commands stay in the sandbox",
    "on": "commands run outside the sandbox; what is not on the allowlist is asked about",
    "ask": "commands run outside the sandbox; what is not on the allowlist is asked about",
    "full": "commands run outside the sandbox under tools.exec alone",
}


async def elevated(desk: SessionService, key: SessionKey, args: str) -> str:
    """Shows or sets the level of a session, in words."""
    app = desk.app
    boxed = app.boxes.is_boxed(key)
    if not args:
        now = app.boxes.elevation(key, said(await desk.lifecycle.preferences(key)), millis(app.clock))
        note = "" if boxed else " This session is in no sandbox, so it changes nothing here."
        return f"Elevated: {now.level} ({MEANING[now.level]}).{f' {now.why}.' if now.why else ''}{note}"
    level = args.split()[0].lower()
    if level not in LEVELS:
        raise InvalidRequest("write: /elevated on, ask, full or off")
    settings = app.config.tools.elevated
    who = speaker(key, app.config.commands.owner_allow_from)
    if level != "off" and (why := refuse_reason(who, settings, app.boxes.tool_settings(key.agent).elevated)):
        raise InvalidRequest(f"Elevated is not available here: {why}.")
    await desk.lifecycle.prefer(key, {"elevated_level": level, "elevated_at": millis(app.clock)})
    await desk.changed(key, "patch")
    lasts = f" for {settings.expires_minutes:g} minutes" if level != "off" and settings.expires_minutes else ""
    return f"Elevated: {level}{lasts} ({MEANING[level]})."
