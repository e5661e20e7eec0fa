import { extentOf, linePath, type Point } from '../format/sparkline';
import './sparkline.css';

/** A few lines without axes. `label` says in words what they show, for those who do not see them. */
export function Sparkline(props: { label: string; lines: readonly (readonly Point[])[]; start: number; end: number; step: number }) {
  const width = 600;
  const height = 90;
  const extent = extentOf(props.lines, props.start, props.end);
  if (!extent) return null;
  return (
    <svg class="sparkline" role="img" aria-label={props.label} viewBox={`-2 -2 ${width + 4} ${height + 4}`} preserveAspectRatio="none">
      {props.lines.map((line, i) => (
        <path key={i} d={linePath(line, extent, width, height, props.step * 1.5)} />
      ))}
    </svg>
  );
}
