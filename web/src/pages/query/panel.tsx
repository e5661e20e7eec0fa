import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatQuery, type QueryData } from '../../api/query';
import { Button, IconButton } from '../../ui/button';
import { Notices, Spinner } from '../../ui/feedback';
import { Segmented } from '../../ui/segmented';
import { Tabs } from '../../ui/tabs';
import { bounds, type Span } from '../../ui/time-range';
import { Download } from './download';
import { Editor, type EditorRef } from './editor';
import type { Note } from './editor-view';
import { Explain } from './explain';
import { Graph } from './graph';
import { HeatmapView } from './heatmap';
import { HistoryMenu } from './history-menu';
import { remember } from './history';
import type { Panel, TabId } from './link';
import { Options } from './options';
import type { Zooming } from './plot';
import { QueryError } from './query-error';
import { ResultTable } from './result-table';
import { Suggestions } from './suggestions';
import { RunSummary } from './summary';
import type { Refresh } from './use-refresh';
import { useRun, type Run, type Running } from './use-run';

const titles: readonly { id: TabId; title: string }[] = [
  { id: 'table', title: 'Table' },
  { id: 'graph', title: 'Graph' },
  { id: 'heatmap', title: 'Heatmap' },
  { id: 'explain', title: 'Explain' },
];

export interface PanelControls {
  focus: () => void;
  run: () => void;
}

interface Props extends Zooming {
  panel: Panel;
  index: number;
  alone: boolean;
  span: Span;
  refresh: Refresh;
  onChange: (patch: Partial<Panel>) => void;
  onDuplicate: () => void;
  onRemove: () => void;
  /** Gives the page what its keys need. */
  onReady: (controls: PanelControls) => void;
}

export function PanelView(props: Props) {
  const { panel, span, onChange } = props;
  const [draft, setDraft] = useState(panel.expr);
  const [asked, setAsked] = useState(0);
  const [failed, setFailed] = useState<unknown>(null);
  const editor = useRef<EditorRef>(null);
  const running = useRun(panel, span, asked, props.refresh);
  useEffect(() => setDraft(panel.expr), [panel.expr]);

  const run = (expr: string) => {
    setFailed(null);
    const text = expr.trim();
    remember(text);
    // The same expression again: nothing in the link changes, so it has to be said.
    if (text === panel.expr) setAsked((n) => n + 1);
    else onChange({ expr: text });
  };
  const pick = (expr: string) => {
    editor.current?.setText(expr);
    run(expr);
  };
  const format = async () => {
    setFailed(null);
    try {
      editor.current?.setText(await formatQuery(draft));
    } catch (error) {
      setFailed(error);
    }
  };
  const runDraft = useRef(() => {});
  runDraft.current = () => run(draft);
  useEffect(() => props.onReady({ focus: () => editor.current?.focus(), run: () => runDraft.current() }), []);
  const notes = useMemo(() => notesOf(running.run), [running.run]);
  const times = () => {
    const { start, end } = bounds(span, Date.now() / 1000);
    return { start: Math.floor(start), end: Math.ceil(end) };
  };
  const busy = running.since !== null;
  return (
    <section class="panel" aria-label={`Panel ${props.index + 1}`} aria-busy={busy}>
      <div class="panel-query">
        <Editor label={`Expression of panel ${props.index + 1}`} text={panel.expr} onChange={setDraft} onRun={() => run(draft)} times={times} notes={notes} handle={editor} />
        {busy ? (
          <Button icon="close" onClick={running.cancel}>
            Cancel
          </Button>
        ) : (
          <Button kind="primary" icon="play" title="Run (Ctrl-Enter)" onClick={() => run(draft)}>
            Run
          </Button>
        )}
      </div>
      <div class="row panel-tools">
        <HistoryMenu onPick={pick} />
        <Button kind="plain" icon="format" disabled={draft.trim() === ''} onClick={format}>
          Format
        </Button>
        <Options panel={panel} range={span.range} onChange={onChange} />
        <IconButton icon="plus" label="Add a panel like this one" onClick={props.onDuplicate} />
        {!props.alone && <IconButton icon="trash" label="Remove this panel" onClick={props.onRemove} />}
      </div>
      {failed !== null && <QueryError error={failed} expr={draft} />}
      {panel.expr === '' ? <Suggestions onPick={pick} /> : <Answer {...props} running={running} />}
    </section>
  );
}

function notesOf(run: Run | null): readonly Note[] {
  if (!run) return [];
  return [
    ...run.warnings.map((message): Note => ({ severity: 'warning', message })),
    ...run.infos.map((message): Note => ({ severity: 'info', message })),
  ];
}

function Answer(props: Props & { running: Running }) {
  const { panel, onChange, running } = props;
  const { run, error, since } = running;
  return (
    <Tabs label="How to show the answer" tabs={titles} value={panel.tab} onChange={(tab) => onChange({ tab })} aside={<TabTools {...props} run={run} />}>
      <p class="panel-state muted" role="status">
        {since !== null && <span class="spinner-mark" aria-hidden="true" />}
        {run ? <RunSummary run={run} /> : since !== null ? 'Running…' : ''}
      </p>
      {error !== null && <QueryError error={error} expr={panel.expr} />}
      {run && <Notices warnings={run.warnings.map(plainly)} infos={run.infos} />}
      {run ? <View {...props} run={run} /> : since !== null ? <Spinner text="Running" /> : null}
    </Tabs>
  );
}

/** The server's words for "there are more series" do not say what to do. */
function plainly(warning: string): string {
  return warning === 'results truncated due to limit' ? 'There are more series than are shown. topk() picks the largest, an aggregation joins them.' : warning;
}

function TabTools({ panel, onChange, run }: Props & { run: Run | null }) {
  return (
    <>
      {panel.tab === 'graph' && (
        <>
          <Segmented
            label="Lines or areas"
            value={panel.stacked ? 'stacked' : 'lines'}
            choices={[
              { value: 'lines', text: 'Lines' },
              { value: 'stacked', text: 'Stacked' },
            ]}
            onChange={(value) => onChange({ stacked: value === 'stacked' })}
          />
          <Segmented
            label="Axis"
            value={panel.log ? 'log' : 'linear'}
            choices={[
              { value: 'linear', text: 'Linear' },
              { value: 'log', text: 'Log' },
            ]}
            onChange={(value) => onChange({ log: value === 'log' })}
          />
          <Button kind="plain" aria-pressed={panel.exemplars} onClick={() => onChange({ exemplars: !panel.exemplars })}>
            Exemplars
          </Button>
        </>
      )}
      {run && panel.tab !== 'explain' && <Download data={run.data} />}
    </>
  );
}

function View({ panel, run, onZoom, onZoomOut }: Props & { run: Run }) {
  const data: QueryData = run.data;
  // After a change of tabs the answer is the one of the other tab for a moment.
  if (run.tab !== panel.tab) return <Spinner text="Running" />;
  if (panel.tab === 'explain') return <Explain data={data} took={run.took} />;
  if (panel.tab === 'table') return <ResultTable data={data} />;
  if (data.resultType !== 'matrix' && data.resultType !== 'columns') return null;
  const common = { data, grid: run.grid, onZoom, onZoomOut };
  if (panel.tab === 'heatmap') return <HeatmapView {...common} />;
  return <Graph {...common} stacked={panel.stacked} log={panel.log} exemplars={run.exemplars} />;
}

