// The query page: a time for all, and panels below each other. The hash is the state; see link.ts.
import { useEffect, useRef, useState } from 'preact/hooks';
import { navigate, route } from '../../router';
import { Button } from '../../ui/button';
import { copyText } from '../../ui/copy';
import { useKeys } from '../../ui/keys';
import { useActions } from '../../ui/palette';
import { TimeRange, type Span } from '../../ui/time-range';
import { decode, encode, newPanel, type Panel, type View } from './link';
import { PanelView, type PanelControls } from './panel';
import { useRefresh } from './use-refresh';
import './query.css';

export default function QueryPage() {
  const view = decode(route.value.params);
  const keys = usePanelKeys(view.panels.length);
  const controls = useRef(new Map<number, PanelControls>());
  const zoomed = useRef<Span[]>([]);
  const refresh = useRefresh(view.refresh);
  const [copied, setCopied] = useState(false);

  const change = (patch: Partial<View>) => navigate('query', encode({ ...view, ...patch }));
  const setPanels = (panels: Panel[]) => change({ panels });
  const add = (at: number, panel: Panel) => {
    keys.insert(at);
    setPanels(view.panels.toSpliced(at, 0, panel));
  };
  const remove = (at: number) => {
    keys.remove(at);
    setPanels(view.panels.toSpliced(at, 1));
  };
  const setSpan = (span: Span) => {
    zoomed.current = [];
    change({ span });
  };
  const zoom = (start: number, end: number) => {
    zoomed.current.push(view.span);
    // Whole seconds are easier to read and to say; below a minute they would be too coarse.
    const unit = end - start > 60 ? 1 : 1000;
    const round = (at: number) => Math.round(at * unit) / unit;
    change({ span: { range: Math.max(0.1, round(end) - round(start)), end: round(end) } });
  };
  const zoomOut = () => change({ span: zoomed.current.pop() ?? wider(view.span) });
  const share = async () => {
    setCopied(await copyText(location.href));
    setTimeout(() => setCopied(false), 1500);
  };

  const all = () => keys.list.flatMap((key) => controls.current.get(key) ?? []);
  useKeys([
    { key: '/', help: 'Write a query', run: () => all()[0]?.focus() },
    // An editor runs its own panel; from elsewhere, everything is run.
    { key: 'Ctrl-Enter', help: 'Run the query; in the editor Enter does it too', run: () => all().forEach(({ run }) => run()) },
  ]);
  useActions([
    { title: 'Add a panel', run: () => add(view.panels.length, newPanel) },
    { title: 'Copy the link to this view', run: share },
  ]);
  useEffect(() => {
    if (view.panels.length === 1 && view.panels[0]?.expr === '') all()[0]?.focus();
  }, []);

  return (
    <div class="stack">
      <h1 class="off-screen">Query</h1>
      <div class="row spread query-bar">
        <TimeRange value={view.span} onChange={setSpan} refresh={view.refresh} onRefresh={(seconds) => change({ refresh: seconds })} />
        <Button kind="plain" icon={copied ? 'check' : 'link'} onClick={share}>
          {copied ? 'Copied' : 'Copy link'}
        </Button>
      </div>
      {view.panels.map((panel, i) => (
        <PanelView
          key={keys.list[i]}
          panel={panel}
          index={i}
          alone={view.panels.length === 1}
          span={view.span}
          refresh={refresh}
          onChange={(patch) => setPanels(view.panels.with(i, { ...panel, ...patch }))}
          onDuplicate={() => add(i + 1, { ...panel })}
          onRemove={() => remove(i)}
          onZoom={zoom}
          onZoomOut={zoomOut}
          onReady={(own) => controls.current.set(keys.list[i] ?? 0, own)}
        />
      ))}
      <div>
        <Button icon="plus" onClick={() => add(view.panels.length, newPanel)}>
          Add a panel
        </Button>
      </div>
    </div>
  );
}

/** Twice as long, around the same middle. */
function wider({ range, end }: Span): Span {
  const later = end === null ? null : end + range / 2;
  return { range: range * 2, end: later !== null && later >= Date.now() / 1000 ? null : later };
}

/** Names for panels, so that removing one does not give its editor and answer to the next. */
function usePanelKeys(count: number) {
  const next = useRef(0);
  const list = useRef<number[]>([]);
  while (list.current.length < count) list.current.push(next.current++);
  list.current.length = count;
  return {
    list: list.current,
    insert: (at: number) => void list.current.splice(at, 0, next.current++),
    remove: (at: number) => void list.current.splice(at, 1),
  };
}
