// The editor itself, loaded on demand. It lives in a shadow tree, where CodeMirror uses constructable
// style sheets; in the document it would add `<style>` elements, which the CSP forbids.
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, insertNewlineAndIndent } from '@codemirror/commands';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { forceLinting, linter, type Diagnostic } from '@codemirror/lint';
import { EditorState, Prec } from '@codemirror/state';
import { EditorView, keymap, placeholder, type Command, type KeyBinding } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { LanguageType, promQLLanguage } from '@prometheus-io/codemirror-promql';
import { parseQuery } from '../../api/query';
import { ApiError } from '../../api/error';
import { Completion, type Times } from './completion';
import { placeOf, withoutPlace } from './position';

export interface EditorOptions {
  text: string;
  label: string;
  onChange: (text: string) => void;
  onRun: () => void;
  times: () => Times;
}

export interface EditorHandle {
  setText: (text: string) => void;
  /** Warnings and infos of an answer to this text, shown where they point to. */
  setNotes: (text: string, notes: readonly Note[]) => void;
  focus: () => void;
  destroy: () => void;
}

export interface Note {
  severity: 'warning' | 'info';
  message: string;
}

export function createEditor(host: HTMLElement, options: EditorOptions): EditorHandle {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const completion = new Completion(options.times);
  const notes = { text: '', list: [] as readonly Note[] };
  const language = promQLLanguage(LanguageType.PromQL);
  const run: Command = (view) => {
    // While the list is open and a choice is made, Enter takes it.
    if (completionStatus(view.state) === 'active' && acceptCompletion(view)) return true;
    options.onRun();
    return true;
  };
  const runAnyway: Command = () => {
    options.onRun();
    return true;
  };
  const keys: KeyBinding[] = [
    { key: 'Mod-Enter', run: runAnyway },
    { key: 'Enter', run },
    { key: 'Shift-Enter', run: insertNewlineAndIndent },
    { key: 'Tab', run: acceptCompletion },
  ];
  const view = new EditorView({
    root,
    parent: root as unknown as HTMLElement,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        Prec.highest(keymap.of(keys)),
        history(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ icons: false, maxRenderedOptions: 100 }),
        language,
        language.data.of({ autocomplete: completion.promQL.bind(completion) }),
        syntaxHighlighting(highlighting),
        linter((editor) => lint(editor, notes), { delay: 350 }),
        placeholder('A PromQL expression. Enter runs it, Shift-Enter begins a line.'),
        EditorView.lineWrapping,
        replaceByHand,
        EditorView.contentAttributes.of({ 'aria-label': options.label, spellcheck: 'false' }),
        EditorView.updateListener.of((update) => update.docChanged && options.onChange(update.state.doc.toString())),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        theme,
      ],
    }),
  });
  return {
    setText(text) {
      if (text === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: text.length } });
    },
    setNotes(text, list) {
      Object.assign(notes, { text, list });
      forceLinting(view);
    },
    focus: () => view.focus(),
    destroy() {
      completion.destroy();
      view.destroy();
    },
  };
}

/** The server's parser is the one that counts, so it is asked instead of a second one here. */
async function lint(view: EditorView, notes: { text: string; list: readonly Note[] }): Promise<Diagnostic[]> {
  const text = view.state.doc.toString();
  if (text.trim() === '') return [];
  try {
    await parseQuery(text);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) return [];
    const place = placeOf(error.message, text);
    return place ? [{ ...visible(place, text), severity: 'error', message: withoutPlace(error.message) }] : [];
  }
  if (notes.text !== text) return [];
  return notes.list.flatMap(({ severity, message }) => {
    const place = placeOf(message, text);
    return place ? [{ ...visible(place, text), severity, message: withoutPlace(message) }] : [];
  });
}

/** A mark needs a character: at the end of the text, the last one. */
function visible({ from, to }: { from: number; to: number }, text: string) {
  return from < text.length ? { from, to } : { from: Math.max(0, text.trimEnd().length - 1), to: text.length };
}

/**
 * Where typed text replaces other text, browsers keep its style by an attribute `style`. The editor would
 * remove that at once, but the CSP forbids it already and complains; so this is not left to the browser.
 */
const replaceByHand = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view;
    const { main, ranges } = state.selection;
    const text = event.data;
    if (event.inputType !== 'insertText' || !text || main.empty || ranges.length > 1 || view.composing) return false;
    const insert = () => state.update(state.replaceSelection(text), { userEvent: 'input.type', scrollIntoView: true });
    // Brackets around a selection, for example.
    const handled = state.facet(EditorView.inputHandler).some((handler) => handler(view, main.from, main.to, text, insert));
    if (!handled) view.dispatch(insert());
    event.preventDefault();
    return true;
  },
});

const highlighting = HighlightStyle.define([
  { tag: tags.function(tags.variableName), color: 'var(--code-function)' },
  { tag: [tags.operatorKeyword, tags.keyword, tags.modifier], color: 'var(--code-keyword)' },
  { tag: tags.operator, color: 'var(--code-keyword)' },
  { tag: tags.string, color: 'var(--code-string)' },
  { tag: [tags.number, tags.literal], color: 'var(--code-number)' },
  { tag: tags.labelName, color: 'var(--code-label)' },
  { tag: tags.comment, color: 'var(--code-comment)', fontStyle: 'italic' },
]);

const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--bg-input)', fontSize: '14px', borderRadius: '5px' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5', maxHeight: '40vh' },
  '.cm-content': { padding: '5px 2px', caretColor: 'var(--text)', minHeight: '21px' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-placeholder': { color: 'var(--text-muted)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--bg-chosen)', outline: '1px solid var(--border-strong)' },
  '.cm-tooltip': {
    border: '1px solid var(--border)',
    borderRadius: '5px',
    backgroundColor: 'var(--bg)',
    color: 'var(--text)',
    boxShadow: 'var(--shadow)',
    maxWidth: 'min(640px, 94vw)',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', maxHeight: '320px', maxWidth: 'min(640px, 94vw)', padding: '4px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { display: 'flex', gap: '24px', justifyContent: 'space-between', padding: '3px 8px', borderRadius: '3px' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--bg-chosen)', color: 'var(--text)' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '700' },
  '.cm-completionDetail': { color: 'var(--text-muted)', fontStyle: 'normal', fontFamily: 'var(--sans)' },
  '.cm-completionInfo': { padding: '6px 10px', fontFamily: 'var(--sans)', maxWidth: '320px' },
  '.cm-diagnostic': { fontFamily: 'var(--sans)', padding: '4px 10px' },
  '.cm-diagnostic-error': { borderLeft: '4px solid var(--bad)' },
  '.cm-diagnostic-warning': { borderLeft: '4px solid var(--warn)' },
  '.cm-diagnostic-info': { borderLeft: '4px solid var(--accent)' },
  // CodeMirror draws the marks as images; lines of the text need none and follow the theme.
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)', textUnderlineOffset: '3px' },
  '.cm-lintRange-warning': { backgroundImage: 'none', textDecoration: 'underline wavy var(--warn)', textUnderlineOffset: '3px' },
  '.cm-lintRange-info': { backgroundImage: 'none', textDecoration: 'underline dotted var(--accent)', textUnderlineOffset: '3px' },
});
