import { Copy } from './copy';
import './code-block.css';

/** Text to be copied: a command, a configuration, an answer. */
export function CodeBlock({ text, label }: { text: string; label: string }) {
  return (
    <div class="code-block">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <Copy text={text} label={`Copy: ${label}`} />
    </div>
  );
}
