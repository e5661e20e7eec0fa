// Buckets as boxes on a line of time. The pointer or the arrow keys choose one, and a line of text says what it is.
import { useMemo, useState } from 'preact/hooks';
import type { Bucket } from '../../api/storage';
import { formatBytes } from '../../format/bytes';
import { formatCount, formatShort } from '../../format/number';
import { formatTime, zoneName } from '../../format/time';
import { zone } from '../../state/zone';
import { perSample, totalsText } from './buckets';
import { boxAt, endOf, layOut, ticks, type Lane } from './lanes';

interface Chosen {
  lane: number;
  box: number;
}

/** The coordinates of a lane's drawing; it is stretched to the width that there is. */
const width = 1000;
const height = 60;

/** Between boxes that touch, and the width of the thinnest: a year of hours must not become a single block, nor nothing. */
const gap = 0.8;
const least = 0.8;

/** How far from a box the pointer may be, as a part of the width. */
const near = 0.006;

export function Timeline({ buckets, start, end }: { buckets: readonly Bucket[]; start: number; end: number }) {
  const lanes = useMemo(() => layOut(buckets, start, end), [buckets, start, end]);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const box = chosen && lanes[chosen.lane]?.boxes[chosen.box];
  const marks = ticks(start, end, zone.value, 6);
  const move = (event: KeyboardEvent) => {
    const next = step(lanes, chosen, event.key);
    if (!next) return;
    event.preventDefault();
    setChosen(next);
  };
  return (
    <div
      class="timeline"
      tabIndex={0}
      role="application"
      aria-label="Time line of buckets. Arrows go from one to the next."
      onKeyDown={move}
      onFocus={() => setChosen((now) => now ?? last(lanes, 0))}
    >
      {lanes.map((lane, i) => (
        <LaneView
          key={lane.resolution}
          lane={lane}
          marks={marks.map(({ x }) => x)}
          chosen={chosen?.lane === i ? chosen.box : null}
          onChoose={(box) => setChosen({ lane: i, box })}
        />
      ))}
      <div class="lane axis" aria-hidden="true">
        <span class="lane-name">{zoneName(end, zone.value)}</span>
        <div class="ticks">
          {marks.map(({ x, text }) => (
            <span key={x} style={{ left: `${x * 100}%` }}>
              {text}
            </span>
          ))}
        </div>
      </div>
      <p class="timeline-details" aria-live="polite">
        {box ? describe(box.bucket) : <span class="muted">Point at a box, or go through them with the arrow keys.</span>}
      </p>
    </div>
  );
}

function LaneView(props: { lane: Lane; marks: readonly number[]; chosen: number | null; onChoose: (box: number) => void }) {
  const { lane, chosen } = props;
  const point = (event: PointerEvent) => {
    const { left, width } = (event.currentTarget as Element).getBoundingClientRect();
    const found = boxAt(lane.boxes, (event.clientX - left) / width, near);
    if (found) props.onChoose(lane.boxes.indexOf(found));
  };
  return (
    <div class="lane">
      <span class="lane-name">
        <strong>{lane.resolution}</strong>
        {totalsText(lane.total).map((text) => (
          <span key={text}>{text}</span>
        ))}
      </span>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true" onPointerMove={point} onPointerDown={point}>
        {props.marks.map((x) => (
          <line key={x} class="mark" x1={x * width} x2={x * width} y1="0" y2={height} />
        ))}
        {lane.boxes.map(({ bucket, x, width: w, height: h }, i) => (
          <rect
            key={`${bucket.start} ${bucket.hours} ${bucket.state}`}
            class={`state-${bucket.state} ${bucket.bytes === null ? 'unsized' : ''} ${i === chosen ? 'chosen' : ''}`}
            x={x * width}
            width={Math.max(w * width - gap, least)}
            y={(1 - h) * height}
            height={h * height}
          />
        ))}
      </svg>
    </div>
  );
}

function last(lanes: readonly Lane[], lane: number): Chosen | null {
  const boxes = lanes[lane]?.boxes.length ?? 0;
  return boxes === 0 ? null : { lane, box: boxes - 1 };
}

/** Where an arrow key leads: along a lane, or to the box of about the same time in the next one. */
function step(lanes: readonly Lane[], from: Chosen | null, key: string): Chosen | null {
  const now = from ?? last(lanes, 0);
  const lane = now && lanes[now.lane];
  if (!now || !lane) return null;
  const along = { ArrowLeft: now.box - 1, ArrowRight: now.box + 1, Home: 0, End: lane.boxes.length - 1 }[key];
  if (along !== undefined) return { lane: now.lane, box: Math.max(0, Math.min(along, lane.boxes.length - 1)) };
  const across = { ArrowUp: now.lane - 1, ArrowDown: now.lane + 1 }[key];
  const other = across === undefined ? undefined : lanes[across];
  const middle = lane.boxes[now.box];
  if (!other || !middle || other.boxes.length === 0) return null;
  const found = boxAt(other.boxes, middle.x + middle.width / 2, 1);
  return found && { lane: across!, box: other.boxes.indexOf(found) };
}

const states: Record<string, string> = {
  building: 'being built',
  retired: 'replaced, deleted soon',
  overlay: 'samples that came after others of their time were deleted',
  remnant: 'series that are kept for longer than the others',
};

function describe(bucket: Bucket): string {
  const per = perSample(bucket);
  const parts = [
    `${bucket.resolution}, ${formatCount(bucket.hours)} h`,
    `${formatTime(bucket.start, zone.value)} to ${formatTime(endOf(bucket), zone.value)}`,
    bucket.state === 'live' ? '' : (states[bucket.state] ?? bucket.state),
    bucket.bytes === null ? 'size not known' : formatBytes(bucket.bytes),
    bucket.series === null ? '' : `${formatCount(bucket.series)} series`,
    bucket.samples === null ? '' : `${formatShort(bucket.samples)} samples`,
    per === null ? '' : `${formatShort(per)} bytes per sample`,
  ];
  return parts.filter((part) => part !== '').join(' · ');
}
