import { render } from 'preact';
import { App } from './app';
import { startRouter } from './router';
import { watchServer } from './state/server';
import { startKeys } from './ui/keys';
import './styles/tokens.css';
import './styles/base.css';
import './styles/components.css';
import './styles/shell.css';

startRouter();
startKeys();
watchServer();
render(<App />, document.getElementById('app')!);
