import { useState } from 'preact/hooks';
import { access } from '../state/server';
import { basic, bearer, finishLogin, loginReason } from '../state/session';
import { Button } from './button';
import { Dialog } from './dialog';
import { Field } from './field';
import { Tabs } from './tabs';

const kinds = [
  { id: 'basic', title: 'User and password' },
  { id: 'bearer', title: 'Token' },
] as const;

type Kind = (typeof kinds)[number]['id'];

export function Login() {
  const schemes = access.value?.schemes ?? [];
  const offered = kinds.filter(({ id }) => schemes.length === 0 || schemes.includes(id));
  const [kind, setKind] = useState<Kind>(offered[0]?.id ?? 'basic');
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  const [token, setToken] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    finishLogin(kind === 'basic' ? basic(user, password) : bearer(token));
  };
  const ready = kind === 'basic' ? user !== '' : token.trim() !== '';
  return (
    <Dialog title="Sign in" class="login" onClose={() => finishLogin(null)}>
      <form onSubmit={submit}>
        <p class="muted">{loginReason.value}</p>
        <Tabs label="Kind of credential" tabs={offered} value={kind} onChange={setKind}>
          {kind === 'basic' ? (
            <>
              <Field label="User">
                <input autofocus autocomplete="username" value={user} onInput={(event) => setUser(event.currentTarget.value)} />
              </Field>
              <Field label="Password">
                <input type="password" autocomplete="current-password" value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
              </Field>
            </>
          ) : (
            <Field label="Token">
              <input type="password" autofocus autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
            </Field>
          )}
        </Tabs>
        <p class="field-hint">Kept in this tab until it is closed.</p>
        <Button type="submit" kind="primary" disabled={!ready}>
          Sign in
        </Button>
      </form>
    </Dialog>
  );
}
