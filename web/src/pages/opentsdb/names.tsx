import { useState } from 'preact/hooks';
import { getSeriesMeta, getUidMeta, lookup, suggest, type FoundSeries } from '../../api/opentsdb';
import { route, setParams } from '../../router';
import { Button } from '../../ui/button';
import { CodeBlock } from '../../ui/code-block';
import { Copy } from '../../ui/copy';
import { Field, Select } from '../../ui/field';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { LabelList } from '../../ui/label-list';
import { LinkButton } from '../../ui/link-button';
import { Suggest } from '../../ui/suggest';
import { Table, type Column } from '../../ui/table';
import { useApi } from '../../ui/use-api';
import { uidsOf } from './branch-path';
import { seriesHref } from './link';
import { parseTags } from './tags';

const limit = 500;
type Kind = 'metric' | 'tagk' | 'tagv' | 'tsuid';

const columns: readonly Column<FoundSeries>[] = [
  { id: 'metric', title: 'Metric', cell: ({ metric, tags }) => <a href={seriesHref(metric, tags)}>{metric}</a>, sort: ({ metric }) => metric },
  { id: 'tags', title: 'Tags', cell: ({ tags }) => <LabelList labels={tags} /> },
  { id: 'tsuid', title: 'TSUID', cell: ({ tsuid }) => <Tsuid tsuid={tsuid} /> },
];

export function Names() {
  return (
    <div class="stack">
      <SeriesLookup />
      <UidLookup />
    </div>
  );
}

function SeriesLookup() {
  const { params } = route.value;
  const [metric, setMetric] = useState(params.get('metric') ?? '');
  const [tags, setTags] = useState(params.get('tags') ?? '');
  const asked = { metric: params.get('metric') ?? '', tags: params.get('tags') ?? '' };
  const { data, error, reload } = useApi(
    (signal) => (asked.metric === '' && asked.tags === '' ? Promise.resolve(null) : lookup(asked.metric || '*', parseTags(asked.tags), limit, signal)),
    [asked.metric, asked.tags],
  );
  return (
    <section class="stack" aria-label="Series">
      <h2>Series</h2>
      <form
        class="row fields"
        onSubmit={(event) => {
          event.preventDefault();
          setParams({ metric: metric || null, tags: tags || null });
        }}
      >
        <Field label="Metric">
          <Suggest label="Metric" size={32} placeholder="any" value={metric} onInput={setMetric} ask={(text, signal) => suggest('metrics', text, signal)} />
        </Field>
        <Field label="Tags">
          <input size={28} placeholder="host=web01 dc=*" value={tags} spellcheck={false} onInput={(event) => setTags(event.currentTarget.value)} />
        </Field>
        <Button type="submit" kind="primary" icon="search" disabled={metric === '' && tags === ''}>
          Find
        </Button>
      </form>
      <div>
        <p class="off-screen" role="status">
          {data ? `${data.results.length} series found` : ''}
        </p>
        {error !== undefined && error !== null ? (
          <ErrorBox error={error} onRetry={reload} />
        ) : data === undefined ? (
          <Spinner />
        ) : (
          data && <Table label="Series found" columns={columns} rows={data.results} rowKey={({ tsuid }) => tsuid} empty={<Empty title="No series is like that." />} />
        )}
        {data?.results.length === limit && <p class="muted">There may be more; {limit} are shown at most.</p>}
      </div>
    </section>
  );
}

/** A series' id, taken apart: each UID leads to its name. */
function Tsuid({ tsuid }: { tsuid: string }) {
  return (
    <span class="row mono">
      <span>
        {uidsOf(tsuid).map(({ type, uid }, i) => (
          <LinkButton key={i} title={`Look up this ${type}`} onClick={() => setParams({ kind: type, uid })}>
            {uid}
          </LinkButton>
        ))}
      </span>
      <Copy text={tsuid} label="Copy the TSUID" />
    </span>
  );
}

function UidLookup() {
  const { params } = route.value;
  const asked = { kind: (params.get('kind') ?? 'metric') as Kind, uid: params.get('uid') ?? '' };
  const [uid, setUid] = useState(asked.uid);
  const { data, error } = useApi(
    async (signal) => {
      setUid(asked.uid);
      if (asked.uid === '') return null;
      return asked.kind === 'tsuid' ? getSeriesMeta(asked.uid, signal) : getUidMeta(asked.kind, asked.uid, signal);
    },
    [asked.kind, asked.uid],
  );
  return (
    <section class="stack" aria-label="UIDs">
      <h2>UIDs</h2>
      <form
        class="row fields"
        onSubmit={(event) => {
          event.preventDefault();
          setParams({ uid: uid || null, kind: asked.kind });
        }}
      >
        <Field label="Kind">
          <Select
            label="Kind"
            value={asked.kind}
            choices={(['metric', 'tagk', 'tagv', 'tsuid'] as const).map((value) => ({ value, text: value }))}
            onChange={(kind) => setParams({ kind, uid: null })}
          />
        </Field>
        <Field label="UID">
          <input class="mono" placeholder={asked.kind === 'tsuid' ? '000001000001000001' : '000001'} value={uid} spellcheck={false} onInput={(event) => setUid(event.currentTarget.value.trim())} />
        </Field>
        <Button type="submit" kind="primary" icon="search" disabled={uid === ''}>
          Look up
        </Button>
      </form>
      <div aria-live="polite">{error ? <ErrorBox error={error} /> : data ? <CodeBlock label="What the server knows of it" text={JSON.stringify(data, null, 2)} /> : null}</div>
    </section>
  );
}
