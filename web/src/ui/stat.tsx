import type { ComponentChildren } from 'preact';

/** A row of numbers with what they mean. */
export function Stats({ children }: { children: ComponentChildren }) {
  return <dl class="stats">{children}</dl>;
}

export function Stat({ label, title, children }: { label: string; title?: string; children: ComponentChildren }) {
  return (
    <div class="stat" title={title ?? ''}>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A bar from 0 to 1 behind or beside a number. */
export function Bar({ part, label }: { part: number; label: string }) {
  const width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return (
    <span class="bar" role="img" aria-label={label}>
      <span class="bar-fill" style={{ width }} />
    </span>
  );
}

export function Badge({ kind = 'neutral', children }: { kind?: 'neutral' | 'good' | 'bad' | 'warn'; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>;
}
