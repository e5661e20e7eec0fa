import { translate } from '../../api/opentsdb';
import { ApiError } from '../../api/error';
import { formatDuration } from '../../format/duration';
import { CodeBlock } from '../../ui/code-block';
import { ErrorBox } from '../../ui/feedback';
import { bounds, type Span } from '../../ui/time-range';
import { useApi } from '../../ui/use-api';
import { promqlHref } from './link';
import { formatM, type SubQuery } from './sub-query';

/** The PromQL that gives the same numbers, or why there is none. */
export function Promql({ queries, span }: { queries: readonly SubQuery[]; span: Span }) {
  const m = queries.map(formatM);
  const { start, end } = bounds(span, Math.floor(Date.now() / 1000));
  const { data, error } = useApi((signal) => translate(m, start, end, signal), [m.join('\n'), span.range, span.end]);
  if (error instanceof ApiError && error.missing) {
    return <CodeBlock label="PromQL, with the command line" text={m.map((one) => `icecore opentsdb translate ${shell(one)}`).join('\n')} />;
  }
  if (error) return <ErrorBox error={error} />;
  if (!data) return null;
  if (data.promql.length === 0) return <p class="muted">PromQL cannot say this: {data.reason ?? 'the server gives no reason'}.</p>;
  const step = typeof data.step === 'number' ? formatDuration(data.step) : (data.step ?? '');
  return (
    <div class="stack">
      <CodeBlock label="PromQL" text={data.promql.join('\n')} />
      {data.reason && <p class="muted">{data.reason}</p>}
      {(data.conditions?.length ?? 0) > 0 && <p class="muted">The same numbers if {data.conditions!.join('; and ')}.</p>}
      {data.notes?.map((note) => (
        <p key={note} class="muted">
          {note}
        </p>
      ))}
      <p>
        <a href={promqlHref(data.promql, span, step)}>Open in Query</a>
        {step !== '' && <span class="muted"> with steps of {step}</span>}
      </p>
    </div>
  );
}

const shell = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
