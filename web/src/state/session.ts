// Who is asking. The credential lives in sessionStorage: one tab, until it is closed.
import { signal } from '@preact/signals';
import { read, write } from './stored';

const key = 'icecore.credential';
const store = () => sessionStorage;

/** The value of the header `Authorization`, or null. */
export const credential = signal<string | null>(read(key, store));

/** Set while the login dialog is open: why it opened. */
export const loginReason = signal<string | null>(null);

let waiting: { promise: Promise<boolean>; done: (signedIn: boolean) => void } | null = null;

/** Opens the login dialog and waits: true when there is a new credential, false when it was closed. */
export function askForLogin(reason: string): Promise<boolean> {
  if (!waiting) {
    let done!: (signedIn: boolean) => void;
    const promise = new Promise<boolean>((resolve) => (done = resolve));
    waiting = { promise, done };
  }
  loginReason.value = reason;
  return waiting.promise;
}

export function finishLogin(header: string | null): void {
  if (header !== null) setCredential(header);
  loginReason.value = null;
  waiting?.done(header !== null);
  waiting = null;
}

export function setCredential(header: string | null): void {
  credential.value = header;
  write(key, header, store);
}

export function basic(user: string, password: string): string {
  // btoa takes bytes; names and passwords may be any text.
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

export function bearer(token: string): string {
  return `Bearer ${token.trim()}`;
}
