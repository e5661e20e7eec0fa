import { connection } from '../state/connection';
import { formatTime } from '../format/time';
import { zone } from '../state/zone';

/** Says that the server does not answer. It goes away by itself, and the page asks again. */
export function GoneBanner() {
  const now = connection.value;
  if (now.state === 'ok') return null;
  return (
    <div class="banner" role="alert">
      {now.state === 'gone' ? 'The server does not answer' : 'The server is not ready'}
      {now.reason && now.reason !== 'no connection' ? `: ${now.reason}` : ''}. Since{' '}
      {formatTime(Math.floor(now.since), zone.value)}; trying again.
    </div>
  );
}
