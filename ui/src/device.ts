// Who this browser is: an Ed25519 key that never leaves it.

export interface Device {
  id: string;
  publicKey: string;
  sign(text: string): Promise<string>;
}

export class NoIdentity extends Error {}

const STORE = "keys";

export async function identity(): Promise<Device> {
  if (!globalThis.isSecureContext || !crypto.subtle) {
    throw new NoIdentity(
      "Browsers keep keys only for pages on this machine or over https. Open http://127.0.0.1, use an ssh tunnel, or put https in front of the gateway.",
    );
  }
  let pair: CryptoKeyPair;
  try {
    pair = await keys();
  } catch (error) {
    throw new NoIdentity(`This browser cannot make an Ed25519 key (${(error as Error).message}). Use a current one.`);
  }
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
  return {
    id: [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join(""),
    publicKey: base64url(raw),
    sign: async (text) =>
      base64url(new Uint8Array(await crypto.subtle.sign("Ed25519", pair.privateKey, new TextEncoder().encode(text)))),
  };
}

function base64url(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

let made: Promise<CryptoKeyPair> | undefined;

function keys(): Promise<CryptoKeyPair> {
  made ??= stored().catch((error) => {
    made = undefined;
    throw error;
  });
  return made;
}

async function stored(): Promise<CryptoKeyPair> {
  const fresh = async () => (await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])) as CryptoKeyPair;
  let db: IDBDatabase;
  try {
    db = await open();
  } catch {
    return fresh(); // a private window: this browser is a new device each time
  }
  const found = await ask<CryptoKeyPair | undefined>(db, "readonly", (store) => store.get("device"));
  if (found) return found;
  const pair = await fresh();
  await ask(db, "readwrite", (store) => store.put(pair, "device"));
  return pair;
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open("openclaw", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function ask<T>(db: IDBDatabase, mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = work(db.transaction(STORE, mode).objectStore(STORE));
    request.onsuccess = () => resolve(request.result as T);
    request.onerror = () => reject(request.error);
  });
}
