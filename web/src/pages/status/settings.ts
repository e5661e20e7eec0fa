// Flags with where their values came from. Only the YAML of the configuration says that, as a
// comment behind each setting:
//
//   icecore:
//     server:
//       listen: 127.0.0.1:9090                            # --listen

export interface SettingRow {
  flag: string;
  value: string;
  /** `default`, a flag, a variable, a place in the file; null when it is not known. */
  source: string | null;
}

export function toSettings(flags: Record<string, string>, yaml: string): SettingRow[] {
  const sources = readSources(yaml);
  return Object.entries(flags).map(([flag, value]) => ({ flag, value, source: sources.get(plain(flag)) ?? null }));
}

/** Sources by the plain names of keys, and of flags that were given. */
function readSources(yaml: string): Map<string, string> {
  const sources = new Map<string, string>();
  let inside = false;
  let section = '';
  for (const line of yaml.split('\n')) {
    if (/^\S/.test(line)) inside = line.startsWith('icecore:');
    if (!inside) continue;
    const found = /^( {2}| {4})([\w-]+):(?:.*\s# (.+))?/.exec(line);
    if (!found) continue;
    const [, indent = '', name = '', source] = found;
    if (indent.length === 2) section = name;
    if (source === undefined) continue;
    sources.set(plain(indent.length === 2 ? name : `${section}.${name}`), source);
    // Some flags are shorter than their keys; then the source itself names the flag.
    if (source.startsWith('--')) sources.set(plain(source.slice(2)), source);
  }
  return sources;
}

/** `otlp.grpc.listen`, `otlp.grpc-listen` and `otlp.grpc_listen` are one setting. */
const plain = (name: string) => name.replaceAll(/[-_]/g, '.');
