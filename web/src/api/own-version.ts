export interface BuildInfo {
  version: string;
  revision?: string;
}

const ownRevision = 'icecore-';

/** The version of Icecore. Clients of Prometheus read its version from `version`. */
export const ownVersion = ({ version, revision }: BuildInfo) =>
  revision?.startsWith(ownRevision) ? revision.slice(ownRevision.length) : version;
