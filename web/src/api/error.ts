/** What went wrong, in the server's words where it said something. */
export class ApiError extends Error {
  constructor(
    message: string,
    /** The HTTP status; 0 when there was no answer at all. */
    readonly status: number,
    /** Prometheus' `errorType`, or what stands for it. */
    readonly type: string,
    /** What to do about it, where the server says that. */
    readonly hint: string | null = null,
  ) {
    super(message);
    this.name = 'ApiError';
  }

  /** The route does not exist: an older server, or a feature that is off. */
  get missing(): boolean {
    return this.status === 404;
  }

  /** The role that the credential lacks, when that is the reason. */
  get missingRole(): string | null {
    return this.status === 403 ? (/role (\w+)/.exec(this.message)?.[1] ?? '') : null;
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** The message of any of the three shapes that the server's parts use, else the text itself. */
export function errorOf(status: number, statusText: string, body: string): ApiError {
  const plain = () => new ApiError(body.trim().slice(0, 500) || `${status} ${statusText}`.trim(), status, 'http');
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    return plain();
  }
  if (typeof json !== 'object' || json === null) return plain();
  const { error, errorType, title, detail, type, hint } = json as Record<string, unknown>;
  // Prometheus: {"status":"error","errorType":"bad_data","error":"…"}
  if (typeof error === 'string') return new ApiError(error, status, typeof errorType === 'string' ? errorType : 'http');
  // OpenTSDB: {"error":{"code":400,"message":"…"}}
  if (typeof error === 'object' && error !== null && 'message' in error) {
    const details = 'details' in error && typeof error.details === 'string' ? `: ${error.details}` : '';
    return new ApiError(String(error.message) + details, status, 'opentsdb');
  }
  // Events: application/problem+json
  if (typeof detail === 'string' || typeof title === 'string') {
    const text = [title, detail].filter((part) => typeof part === 'string' && part !== '').join(': ');
    return new ApiError(text, status, typeof type === 'string' ? type : 'problem', typeof hint === 'string' ? hint : null);
  }
  return plain();
}
