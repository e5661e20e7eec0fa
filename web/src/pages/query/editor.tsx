import type { Ref } from 'preact';
import { useEffect, useImperativeHandle, useRef } from 'preact/hooks';
import type { EditorHandle, Note } from './editor-view';
import type { Times } from './completion';

// Begins with the page, so that both load at once.
const editor = import('./editor-view');

export interface EditorRef {
  focus: () => void;
  setText: (text: string) => void;
}

interface Props {
  label: string;
  /** The text to begin with; later changes replace what is written. */
  text: string;
  onChange: (text: string) => void;
  onRun: () => void;
  times: () => Times;
  notes: readonly Note[];
  handle: Ref<EditorRef>;
}

export function Editor(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorHandle | null>(null);
  const focusWhenReady = useRef(false);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    let gone = false;
    void editor.then(({ createEditor }) => {
      if (gone || !host.current) return;
      const { label, text, notes } = latest.current;
      host.current.textContent = '';
      view.current = createEditor(host.current, {
        label,
        text,
        onChange: (value) => latest.current.onChange(value),
        onRun: () => latest.current.onRun(),
        times: () => latest.current.times(),
      });
      view.current.setNotes(text, notes);
      if (focusWhenReady.current) view.current.focus();
    });
    return () => {
      gone = true;
      view.current?.destroy();
      view.current = null;
    };
  }, []);
  useEffect(() => view.current?.setText(props.text), [props.text]);
  useEffect(() => view.current?.setNotes(props.text, props.notes), [props.text, props.notes]);
  useImperativeHandle(props.handle, () => ({
    focus() {
      focusWhenReady.current = true;
      view.current?.focus();
    },
    setText: (text) => view.current?.setText(text),
  }), []);

  // The text shows at once; the editor takes its place when it has loaded.
  return <Host text={props.text} host={host} />;
}

// Never drawn again: what is inside belongs to the editor.
function Host({ text, host }: { text: string; host: Ref<HTMLDivElement> }) {
  const first = useRef(text);
  return (
    <div class="editor" ref={host}>
      {first.current}
    </div>
  );
}
