import { signal } from '@preact/signals';
import { Dialog } from './dialog';
import { keys } from './keys';

export const keyHelpOpen = signal(false);

export function KeyHelp() {
  return (
    <Dialog title="Keys" onClose={() => (keyHelpOpen.value = false)}>
      <dl class="keys">
        {keys.value.map(({ key, help }) => (
          <div key={`${key} ${help}`}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{help}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>Escape</kbd>
          </dt>
          <dd>Close what is open</dd>
        </div>
      </dl>
    </Dialog>
  );
}
