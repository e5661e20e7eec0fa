/** To the right and below the pointer; in the right half of the window, to its left. */
export function placed({ left, top }: { left: number; top: number }): Record<string, string> {
  const gap = 14;
  const right = left > innerWidth / 2;
  return {
    left: `${left + (right ? -gap : gap)}px`,
    top: `${top + gap}px`,
    transform: right ? 'translateX(-100%)' : 'none',
  };
}
