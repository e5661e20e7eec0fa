// Icons as paths in a 16x16 box, drawn with the color of the text around them.
const paths = {
  menu: 'M2 4h12M2 8h12M2 12h12',
  close: 'M4 4l8 8M12 4l-8 8',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5 14 14',
  play: 'M5 3l8 5-8 5z',
  left: 'M10 3 5 8l5 5',
  right: 'M6 3l5 5-5 5',
  up: 'M3 10l5-5 5 5',
  down: 'M3 6l5 5 5-5',
  copy: 'M6 6h7v7H6zM3 10V3h7',
  check: 'M3 8.5 6.5 12 13 4.5',
  plus: 'M8 3v10M3 8h10',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.5V6H9.5',
  clock: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3.5l2.5 1.5',
  link: 'M7 9.5 9.5 7M6.5 6 8 4.5a2.5 2.5 0 0 1 3.5 3.5L10 9.5M9.5 10 8 11.5A2.5 2.5 0 0 1 4.5 8L6 6.5',
  download: 'M8 2v8M4.5 7 8 10.5 11.5 7M3 13.5h10',
  history: 'M3 8a5 5 0 1 0 1.5-3.5L3 6M3 2.5V6h3.5M8 5v3l2 1.5',
  format: 'M2 4h12M5 8h9M5 12h6',
  sun: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1',
  user: 'M8 2.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM3 13.5c0-2.5 2.2-4 5-4s5 1.5 5 4',
  help: 'M6 6a2 2 0 1 1 2.6 1.9c-.4.2-.6.5-.6 1V9.5M8 12v.2',
  trash: 'M3 4.5h10M6 4V2.5h4V4M4.5 4.5l.5 9h6l.5-9',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
