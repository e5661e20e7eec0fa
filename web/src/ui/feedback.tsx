// What a page says while it waits, when something failed, and when there is nothing.
import type { ComponentChildren } from 'preact';
import { ApiError } from '../api/error';
import { Button } from './button';

export function Spinner({ text = 'Loading' }: { text?: string }) {
  return (
    <p class="spinner" role="status">
      <span class="spinner-mark" aria-hidden="true" />
      {text}…
    </p>
  );
}

export function ErrorBox({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  return (
    <div class="box error" role="alert">
      <div class="box-text">
        {describe(error)}
        {error instanceof ApiError && error.hint !== null && <p class="muted">{error.hint}</p>}
      </div>
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

function describe(error: unknown): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  const role = error.missingRole;
  if (role !== null) return `This needs ${role ? `the role “${role}”` : 'another role'}, which your login does not have.`;
  return error.message;
}

/** Warnings and infos of an answer. */
export function Notices({ warnings, infos }: { warnings: readonly string[]; infos: readonly string[] }) {
  if (warnings.length === 0 && infos.length === 0) return null;
  return (
    <div class="notices" role="status">
      {warnings.map((text) => (
        <div key={text} class="box warning">
          <div class="box-text">{text}</div>
        </div>
      ))}
      {infos.map((text) => (
        <div key={text} class="box info">
          <div class="box-text">{text}</div>
        </div>
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}
