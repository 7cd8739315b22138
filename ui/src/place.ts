// Addresses: the part of the path that is ours, and the page it names.

export const base = document.documentElement.dataset.openclawControlUiBasePath ?? "";

/**
 * The gateway, when whoever serves this page says that it is at another origin. Only the page's own markup can say so:
 * an address that could would let a link send what is typed here to a stranger.
 */
export const elsewhere = document.documentElement.dataset.openclawGatewayUrl ?? "";

export interface Place {
  page: string;
  key: string;
}

export function here(): Place {
  const [page = "", ...rest] = location.pathname.slice(base.length).split("/").filter(Boolean);
  return { page: page || "chat", key: decodeURIComponent(rest.join("/")) || "main" };
}

export function address(page: string, key = ""): string {
  return `${base}/${page}${key ? `/${encodeURIComponent(key)}` : ""}`;
}

export function go(page: string, key = ""): void {
  const path = address(page, key);
  if (path !== location.pathname) history.pushState(null, "", path);
  dispatchEvent(new Event("place"));
}

/** Takes the one-time code out of the address, at once, so that it stays nowhere. */
export function takeCode(): string {
  const hash = new URLSearchParams(location.hash.slice(1));
  const code = hash.get("code") ?? "";
  const token = hash.get("token") ?? "";
  if (location.hash) history.replaceState(null, "", location.pathname);
  return code ? `code:${code}` : token ? `token:${token}` : "";
}
