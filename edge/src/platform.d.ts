/** Platform — the parts of the Workers runtime that are used here, and that the types of browsers do not have. */

interface WebSocket {
  accept(): void;
  serializeAttachment(value: unknown): void;
  deserializeAttachment(): unknown;
}

interface ResponseInit {
  webSocket?: WebSocket;
}

interface Response {
  readonly webSocket: WebSocket | null;
}

declare class WebSocketPair {
  readonly 0: WebSocket;
  readonly 1: WebSocket;
}

interface SqlCursor<Row> extends Iterable<Row> {
  toArray(): Row[];
  readonly rowsRead: number;
  readonly rowsWritten: number;
}

interface SqlStorage {
  exec<Row = Record<string, unknown>>(query: string, ...values: unknown[]): SqlCursor<Row>;
  readonly databaseSize: number;
}

interface DurableObjectStorage {
  readonly sql: SqlStorage;
  transactionSync<T>(run: () => T): T;
  getAlarm(): Promise<number | null>;
  setAlarm(at: number): Promise<void>;
  deleteAlarm(): Promise<void>;
}

interface DurableObjectState {
  readonly storage: DurableObjectStorage;
  acceptWebSocket(socket: WebSocket, tags: string[]): void;
  getWebSockets(tag?: string): WebSocket[];
  getTags(socket: WebSocket): string[];
  waitUntil(promise: Promise<unknown>): void;
}

interface DurableObjectNamespace<T> {
  getByName(name: string): T & { fetch(request: Request | string, init?: RequestInit): Promise<Response> };
}

interface KVNamespace {
  get(key: string, options?: { cacheTtl?: number }): Promise<string | null>;
}

interface R2Bucket {
  get(key: string): Promise<{ readonly size: number; arrayBuffer(): Promise<ArrayBuffer> } | null>;
}

interface Queue<T> {
  send(message: T): Promise<void>;
}

interface QueueBatch<T> {
  readonly messages: readonly { readonly body: T; ack(): void; retry(): void }[];
}

interface ExecutionContext {
  waitUntil(promise: Promise<unknown>): void;
}

declare module "cloudflare:workers" {
  export class DurableObject<Env> {
    protected readonly ctx: DurableObjectState;
    protected readonly env: Env;
    constructor(ctx: DurableObjectState, env: Env);
  }
}
