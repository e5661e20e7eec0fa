import { useState } from 'preact/hooks';
import { deleteAnnotation, getAnnotations, putAnnotation, type Annotation } from '../../api/opentsdb';
import { formatTime, parseTime } from '../../format/time';
import { route, setParams } from '../../router';
import { may } from '../../state/server';
import { zone } from '../../state/zone';
import { Button, IconButton } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { Field } from '../../ui/field';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { readSpan, spanParams } from '../../ui/span-params';
import { Table, type Column } from '../../ui/table';
import { TextArea } from '../../ui/text-area';
import { Time } from '../../ui/time';
import { bounds, TimeRange } from '../../ui/time-range';
import { useApi } from '../../ui/use-api';
import { seconds } from './points';

const day = 86400;

export function Annotations() {
  const { params } = route.value;
  const span = readSpan(params, 7 * day);
  const [edited, setEdited] = useState<Partial<Annotation> | null>(null);
  const [doomed, setDoomed] = useState<Annotation | null>(null);
  const { data, error, reload } = useApi(
    (signal) => {
      const { start, end } = bounds(span, Date.now() / 1000);
      return getAnnotations(start, end, signal);
    },
    [span.range, span.end],
  );
  const columns: readonly Column<Annotation>[] = [
    { id: 'start', title: 'Start', cell: ({ startTime }) => <Time at={seconds(startTime)} />, class: 'note-time', sort: ({ startTime }) => seconds(startTime) },
    { id: 'end', title: 'End', cell: ({ endTime }) => (endTime > 0 ? <Time at={seconds(endTime)} /> : ''), class: 'note-time' },
    { id: 'description', title: 'Description', cell: ({ description }) => description, sort: ({ description }) => description },
    { id: 'notes', title: 'Notes', cell: ({ notes }) => notes },
    {
      id: 'do',
      title: 'Change',
      cell: (note) => (
        <span class="row">
          <Button kind="plain" onClick={() => setEdited(note)}>
            Edit
          </Button>
          <IconButton icon="trash" label="Delete" onClick={() => setDoomed(note)} />
        </span>
      ),
    },
  ];
  return (
    <div class="stack">
      <div class="row">
        <TimeRange value={span} onChange={(next) => setParams(spanParams(next))} />
        <Button icon="plus" kind="primary" disabled={!may('write')} onClick={() => setEdited({})}>
          Write one
        </Button>
      </div>
      <p class="muted">Annotations of no series in particular. Those of a series are listed with its graph.</p>
      {error !== undefined && error !== null ? (
        <ErrorBox error={error} onRetry={reload} />
      ) : !data ? (
        <Spinner />
      ) : (
        <Table label="Annotations" columns={columns} rows={data} sorting={{ column: 'start', down: true }} rowKey={(note) => note.startTime} empty={<Empty title="No annotations in that time." />} />
      )}
      {edited && <EditDialog note={edited} onClose={() => setEdited(null)} onDone={reload} />}
      {doomed && <DeleteDialog note={doomed} onClose={() => setDoomed(null)} onDone={reload} />}
    </div>
  );
}

function EditDialog({ note, onClose, onDone }: { note: Partial<Annotation>; onClose: () => void; onDone: () => void }) {
  const now = Math.floor(Date.now() / 1000);
  const exists = note.startTime !== undefined;
  const [start, setStart] = useState(formatTime(exists ? seconds(note.startTime!) : now, zone.value));
  const [end, setEnd] = useState(note.endTime ? formatTime(seconds(note.endTime), zone.value) : '');
  const [description, setDescription] = useState(note.description ?? '');
  const [notes, setNotes] = useState(note.notes ?? '');
  const [tsuid, setTsuid] = useState(note.tsuid ?? '');
  const [error, setError] = useState<unknown>(null);
  const startTime = exists ? note.startTime! : parseTime(start, zone.value, now);
  const endTime = end === '' ? 0 : parseTime(end, zone.value, now);
  const wrong = startTime === null || endTime === null ? 'A time is 2024-05-01 13:45, now, now-1h or UNIX seconds.' : null;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (wrong !== null) return;
    try {
      await putAnnotation({ startTime: Math.floor(startTime!), description, notes, ...(endTime ? { endTime: Math.floor(endTime) } : {}), ...(tsuid ? { tsuid } : {}) });
      onClose();
      onDone();
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <Dialog title={exists ? 'Change the annotation' : 'Write an annotation'} onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field label="Description">
          <input autofocus value={description} onInput={(event) => setDescription(event.currentTarget.value)} />
        </Field>
        <Field label="Start">
          <input value={start} disabled={exists} onInput={(event) => setStart(event.currentTarget.value)} />
        </Field>
        <Field label="End" hint="Empty for a moment.">
          <input value={end} onInput={(event) => setEnd(event.currentTarget.value)} />
        </Field>
        <Field label="Notes">
          <TextArea label="Notes" rows={3} value={notes} onInput={setNotes} />
        </Field>
        {!exists && (
          <Field label="TSUID of a series" hint="Empty: it is shown with every graph.">
            <input class="mono" value={tsuid} spellcheck={false} onInput={(event) => setTsuid(event.currentTarget.value.trim())} />
          </Field>
        )}
        {wrong !== null && <p class="field-hint wrong">{wrong}</p>}
        {error !== null && <ErrorBox error={error} />}
        <Button type="submit" kind="primary" disabled={wrong !== null || description === ''}>
          Save
        </Button>
      </form>
    </Dialog>
  );
}

function DeleteDialog({ note, onClose, onDone }: { note: Annotation; onClose: () => void; onDone: () => void }) {
  const [error, setError] = useState<unknown>(null);
  const remove = async () => {
    try {
      await deleteAnnotation(note);
      onClose();
      onDone();
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <Dialog title="Delete the annotation?" onClose={onClose}>
      <div class="stack">
        <p>
          “{note.description}” of <Time at={seconds(note.startTime)} />
        </p>
        {error !== null && <ErrorBox error={error} />}
        <div class="row">
          <Button kind="danger" autofocus onClick={remove}>
            Delete
          </Button>
          <Button onClick={onClose}>Keep</Button>
        </div>
      </div>
    </Dialog>
  );
}
