// One WebSocket to the gateway: the handshake, calls and answers, events, and coming back after a silence.

import { identity, NoIdentity } from "./device.js";
import { base, elsewhere } from "./place.js";

export type Json = any; // What comes over the wire is looked at where it is used.

export interface Trouble {
  kind: "credential" | "pairing" | "identity" | "origin" | "other";
  message: string;
  requestId?: string;
}

export class CallFailed extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly details?: Json,
  ) {
    super(message);
  }
}

type State = "connecting" | "ready" | "away" | "refused";
interface Waiting {
  resolve(value: Json): void;
  reject(error: Error): void;
  timer: number;
}

const SCOPES = ["operator.admin", "operator.read", "operator.write", "operator.approvals", "operator.questions", "operator.pairing"];
const CLIENT = { id: "openclaw-control-ui", mode: "webchat", platform: "web", version: "1", displayName: browser() };
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30_000;
const CALL_MS = 30_000;

export class Gateway extends EventTarget {
  state: State = "connecting";
  trouble: Trouble | undefined;
  hello: Json;
  private socket: WebSocket | undefined;
  private secret: string | undefined;
  private calls = new Map<string, Waiting>();
  private next = 1;
  private seq = 0;
  private wait = FIRST_WAIT;
  private heard = 0;
  private retry = 0;

  constructor() {
    super();
    addEventListener("online", () => this.again());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.again());
    setInterval(() => this.listen(), 5000);
  }

  /** Opens the connection; `secret` is used once, after that this browser has a token of its own. */
  open(secret?: string): void {
    clearTimeout(this.retry);
    if (secret) this.secret = secret;
    this.move("connecting");
    const old = this.socket;
    this.socket = undefined;
    old?.close();
    const socket = new WebSocket(elsewhere || `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${base}/`);
    this.socket = socket;
    this.heard = Date.now();
    socket.onmessage = (event) => socket === this.socket && this.take(JSON.parse(event.data as string));
    socket.onclose = () => socket === this.socket && this.lost();
  }

  call(method: string, params: Json = {}, limit = CALL_MS): Promise<Json> {
    const socket = this.socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) {
      return Promise.reject(new CallFailed("AWAY", "the gateway is not connected"));
    }
    const id = String(this.next++);
    return new Promise((resolve, reject) => {
      const timer = window.setTimeout(() => {
        this.calls.delete(id);
        reject(new CallFailed("TIMEOUT", `no answer to ${method} within ${limit / 1000} s`));
      }, limit);
      this.calls.set(id, { resolve, reject, timer });
      socket.send(JSON.stringify({ type: "req", id, method, params }));
    });
  }

  /** Whether the gateway offers a method. */
  offers(method: string): boolean {
    return this.hello?.features?.methods?.includes(method) ?? false;
  }

  /** Hears events until the returned function is called. */
  on(name: string, work: (payload: Json) => void): () => void {
    const hear = (event: Event) => work((event as CustomEvent).detail);
    this.addEventListener(name, hear);
    return () => this.removeEventListener(name, hear);
  }

  /** Forgets who this browser was allowed to be. */
  forget(): void {
    this.secret = undefined;
    localStorage.removeItem(tokenKey());
  }

  private tell(name: string, detail?: Json): void {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  private move(state: State, trouble?: Trouble): void {
    this.state = state;
    this.trouble = trouble;
    this.tell("state");
  }

  private take(frame: Json): void {
    this.heard = Date.now();
    if (frame.type === "event") {
      if (frame.event === "connect.challenge") void this.greet(frame.payload);
      else this.hear(frame);
    } else if (frame.type === "res") {
      const waiting = this.calls.get(frame.id);
      if (!waiting) return;
      this.calls.delete(frame.id);
      clearTimeout(waiting.timer);
      if (frame.ok) waiting.resolve(frame.payload);
      else waiting.reject(new CallFailed(frame.error?.code ?? "", frame.error?.message ?? "failed", frame.error?.details));
    }
  }

  private hear(frame: Json): void {
    if (typeof frame.seq === "number") {
      if (this.seq && frame.seq > this.seq + 1) this.tell("gap");
      this.seq = frame.seq;
    }
    this.tell(frame.event, frame.payload ?? {});
  }

  private async greet(challenge: Json): Promise<void> {
    const socket = this.socket;
    try {
      const device = await identity();
      const token = this.secret ?? localStorage.getItem(tokenKey()) ?? "";
      const auth: Json = this.secret ? { token, password: token } : token ? { deviceToken: token } : undefined;
      const parts = ["v3", device.id, CLIENT.id, CLIENT.mode, "operator", SCOPES.join(","), challenge.ts, token, challenge.nonce, CLIENT.platform, ""];
      const signature = await device.sign(parts.join("|"));
      if (socket !== this.socket) return;
      this.hello = await this.call("connect", {
        minProtocol: 4,
        maxProtocol: 4,
        client: CLIENT,
        role: "operator",
        scopes: SCOPES,
        caps: ["tool-events", "approvals", "exec-approvals"],
        device: { id: device.id, publicKey: device.publicKey, signature, signedAt: challenge.ts, nonce: challenge.nonce },
        ...(auth ? { auth } : {}),
        locale: navigator.language,
      });
    } catch (error) {
      if (socket === this.socket) this.refused(error as Error);
      return;
    }
    const token = this.hello.auth?.deviceToken;
    if (token) {
      localStorage.setItem(tokenKey(), token);
      this.secret = undefined;
    }
    this.seq = 0;
    this.wait = FIRST_WAIT;
    this.move("ready");
    this.tell("hello");
  }

  private refused(error: Error): void {
    const details = error instanceof CallFailed ? error.details : undefined;
    const code = String(details?.code ?? "");
    const stop = (kind: Trouble["kind"], message: string, requestId?: string) => {
      this.move("refused", { kind, message, requestId });
      const socket = this.socket;
      this.socket = undefined;
      socket?.close();
    };
    if (error instanceof NoIdentity) stop("identity", error.message);
    else if (code === "PAIRING_REQUIRED") {
      stop("pairing", error.message, details?.requestId);
      this.retry = window.setTimeout(() => this.open(), 5000);
    } else if (code === "AUTH_DEVICE_TOKEN_MISMATCH" || code === "AUTH_SCOPE_MISMATCH") {
      localStorage.removeItem(tokenKey());
      stop("credential", "This browser's access was taken back.");
    } else if (code.startsWith("AUTH_") || code === "DEVICE_IDENTITY_REQUIRED") {
      this.secret = undefined;
      stop("credential", code === "AUTH_TOKEN_MISSING" ? "" : error.message);
    } else if (code === "CONTROL_UI_ORIGIN_NOT_ALLOWED") stop("origin", error.message);
    else if (error instanceof CallFailed && error.code === "AWAY") this.lost();
    else stop("other", error.message);
  }

  private lost(): void {
    this.socket = undefined;
    for (const { reject, timer } of this.calls.values()) {
      clearTimeout(timer);
      reject(new CallFailed("AWAY", "the connection to the gateway was lost"));
    }
    this.calls.clear();
    if (this.state === "refused") return;
    this.move("away");
    clearTimeout(this.retry);
    this.retry = window.setTimeout(() => this.open(), this.wait * (0.8 + Math.random() * 0.4));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }

  private again(): void {
    if (this.state === "away") this.open();
  }

  /** A connection that says nothing for two ticks is dead, whatever the network believes. */
  private listen(): void {
    const tick = this.hello?.policy?.tickIntervalMs ?? 30_000;
    if (this.socket && Date.now() - this.heard > tick * 2 + 5000) {
      this.socket.close(4000);
      this.lost();
    }
  }
}

/** What people call this browser, for the list of devices. */
function browser(): string {
  const agent = navigator.userAgent;
  const name = ["Edg", "Firefox", "Chrome", "Safari"].find((each) => agent.includes(each)) ?? "Browser";
  const system = ["Android", "iPhone", "iPad", "Windows", "Mac", "Linux"].find((each) => agent.includes(each));
  return `${name === "Edg" ? "Edge" : name}${system ? ` on ${system}` : ""}`;
}

function tokenKey(): string {
  return `openclaw.device-token:${elsewhere || base}`;
}

export const gateway = new Gateway();
