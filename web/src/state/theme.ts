import { computed, effect, signal } from '@preact/signals';
import { storedChoice } from './stored';

export const themes = ['auto', 'light', 'dark'] as const;
export const theme = storedChoice('icecore.theme', themes);

const system = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(system.matches);
system.addEventListener('change', () => (systemDark.value = system.matches));

/** What is shown now. Canvases have to be drawn again when it changes. */
export const dark = computed(() => (theme.value === 'auto' ? systemDark.value : theme.value === 'dark'));

effect(() => {
  if (theme.value === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme.value;
});
