import { ErrorBox } from '../../ui/feedback';
import { placeOf } from './position';

/** An error with the line of the query that it is about, and a mark below the place. */
export function QueryError({ error, expr }: { error: unknown; expr: string }) {
  const message = error instanceof Error ? error.message : '';
  const place = placeOf(message, expr);
  return (
    <>
      <ErrorBox error={error} />
      {place && <Mark expr={expr} from={place.from} to={place.to} />}
    </>
  );
}

function Mark({ expr, from, to }: { expr: string; from: number; to: number }) {
  const begin = expr.lastIndexOf('\n', from - 1) + 1;
  const newline = expr.indexOf('\n', from);
  const line = expr.slice(begin, newline < 0 ? expr.length : newline);
  const mark = ' '.repeat(from - begin) + '^'.repeat(Math.max(1, Math.min(to, begin + line.length) - from));
  return (
    <pre class="error-mark" aria-hidden="true">
      {line}
      {'\n'}
      {mark}
    </pre>
  );
}
