import { useEffect, useState } from 'preact/hooks';
import { IconButton } from './button';

/** Puts a text into the clipboard, and says so for a moment. */
export function Copy({ text, label = 'Copy' }: { text: string | (() => string); label?: string }) {
  const [done, setDone] = useState<'copied' | 'failed' | null>(null);
  useEffect(() => {
    if (done === null) return;
    const timer = setTimeout(() => setDone(null), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => setDone((await copyText(typeof text === 'string' ? text : text())) ? 'copied' : 'failed');
  return (
    <IconButton
      icon={done === 'copied' ? 'check' : done === 'failed' ? 'close' : 'copy'}
      label={done === 'copied' ? 'Copied' : done === 'failed' ? 'The browser did not allow it' : label}
      onClick={copy}
    />
  );
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// Without TLS browsers have no clipboard interface, and this database is often opened that way.
function copyBySelection(text: string): boolean {
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'off-screen';
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}
