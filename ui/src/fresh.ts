// A new conversation.

import { gateway, type Json } from "./gateway.js";
import { go } from "./place.js";

/** Opens an empty conversation: one that nobody has said anything in yet, or another. */
export async function begin(): Promise<void> {
  const { sessions } = await gateway.call("sessions.list", { limit: 50 });
  const unused = sessions.find((row: Json) => row.key.includes(":dashboard:") && !row.systemSent && !row.label && !row.activeRunIds.length);
  go("chat", unused?.key ?? (await gateway.call("sessions.create", {})).key);
}
