// What the server is: its version, what is in use, who is signed in. Asked once, and again when it returns.
import { effect, signal } from '@preact/signals';
import type { BuildInfo } from '../api/own-version';
import { getAccess, getBuildInfo, getFeatures, type Access, type Features } from '../api/status';
import { revived } from './connection';
import { credential } from './session';

export const access = signal<Access | null>(null);
export const features = signal<Features | null>(null);
export const buildInfo = signal<BuildInfo | null>(null);

export function watchServer(): void {
  effect(() => {
    void revived.value;
    void credential.value;
    void refreshServer();
  });
}

export async function refreshServer(): Promise<void> {
  const keep = async <T>(into: { value: T | null }, promise: Promise<T>) => {
    // A failure shows where the page itself asks; the header needs no second message.
    into.value = (await promise.catch(() => null)) ?? into.value;
  };
  await Promise.all([keep(access, getAccess()), keep(features, getFeatures()), keep(buildInfo, getBuildInfo())]);
}

/** Whether the credential has the role. Unknown counts as yes: the server decides, and says so. */
export function may(role: 'read' | 'write' | 'admin'): boolean {
  const now = access.value;
  return now === null || !now.required || now.roles.includes(role);
}
