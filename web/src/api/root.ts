// The document is served at `<prefix>/ui/`, the API beside it.
export const apiRoot: URL = new URL('../', location.href.replace(/[?#].*$/, ''));
