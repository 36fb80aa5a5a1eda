/**
 * Connection — the socket of one client: which dialect it speaks, who it is, and its frames one after the other.
 *
 * A client of 2.x sends JSON-RPC; its first frame tells it from one of 1.x. To that the first frame is a probe in the reliable
 * form, which clients before 1.9 do not know: when it is acknowledged, frames leave in that form. A socket without credentials
 * may send them in a frame; until then requests of 1.x are refused, and those of 2.x held.
 */

import { authenticate, bearer, type Principal } from "./access.ts";
import type { Env } from "./env.ts";
import { type EdgeError, invalid, shorten, tooLarge, unauthenticated, visible, EdgeError as Failure } from "./errors.ts";
import type { Batch } from "./events.ts";
import { random } from "./ids.ts";
import { bytesOf, checkBounds, type Data, DATA_MAX_BYTES, FRAME_MAX_BYTES, isObject, MESSAGE_MAX_BYTES } from "./input.ts";
import { KeyWatch } from "./key_watch.ts";
import { Peer } from "./peer.ts";
import { replay } from "./replay.ts";
import { COMMANDS, encodeBatch, encodeError, encodeReply, isEventType } from "./v1.ts";
import { RpcPeer } from "./v2.ts";

const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Frames that wait for the credentials, and their characters. */
const HELD_MAX = 64;
const HELD_MAX_CHARACTERS = 1024 * 1024;
/** Frames of one client that wait for those before them. */
const FRAMES_MAX = 2_000;
const NOT_YET = "Authentication is needed before anything else: send an auth frame, or connect with ?token=";
const FRAMES = "a client sends auth, subscribe, unsubscribe, <command>_request, or an __ack";
const SUFFIX = "_request";

/** Who a socket belongs to, by which credential. */
export interface Known {
  token: string;
  principal: Principal;
}

export class Connection {
  #env: Env;
  #socket: WebSocket;
  #id = `conn_${random()}`;
  #known: Known | undefined;
  #key: KeyWatch | undefined;
  /** Events that wait until the key was looked up. */
  #unheard: Batch[] = [];
  #peer: Peer | undefined;
  #rpc: RpcPeer | undefined;
  #isReliable = false;
  #wrapped = 0;
  #waitUntil: (promise: Promise<unknown>) => void;
  #frames: Promise<void> = Promise.resolve();
  #waiting = 0;
  #held: string[] = [];
  #heldCharacters = 0;
  #deadline: ReturnType<typeof setTimeout> | undefined;

  constructor(env: Env, socket: WebSocket, known: Known | undefined, waitUntil: (promise: Promise<unknown>) => void) {
    this.#env = env;
    this.#socket = socket;
    this.#known = known;
    this.#waitUntil = waitUntil;
  }

  start(): void {
    this.#socket.binaryType = "arraybuffer";
    this.#socket.addEventListener("message", (message) => this.#arrive(message.data as string | ArrayBuffer));
    this.#socket.addEventListener("close", () => this.#gone());
    this.#socket.addEventListener("error", () => this.#gone());
    this.#write(this.#wrap(JSON.stringify({ type: "server_hello", timestamp: Date.now(), data: {} })));
    if (this.#known !== undefined) this.#enter(this.#known);
    else this.#deadline = setTimeout(() => this.#close(4401, "unauthenticated"), HANDSHAKE_TIMEOUT_MS);
  }

  #enter({ token, principal }: Known): Peer {
    clearTimeout(this.#deadline);
    this.#key = new KeyWatch(this.#env, token, principal, () => this.#close(4401, "unauthenticated"));
    this.#peer = new Peer(this.#env, this.#id, principal, (batch) => this.#tell(batch), this.#waitUntil, () => this.#close(1012, "come again: something here has restarted"));
    return this.#peer;
  }

  #gone(): void {
    clearTimeout(this.#deadline);
    this.#key?.close();
    this.#peer?.close();
    this.#peer = undefined;
  }

  #close(code: number, reason: string): void {
    try {
      this.#socket.close(code, reason);
    } catch {
      // It is closed already.
    }
    this.#gone();
  }

  // --- frames of the client

  #arrive(frame: string | ArrayBuffer): void {
    const size = typeof frame === "string" ? bytesOf(frame) : frame.byteLength;
    if (size > FRAME_MAX_BYTES) return this.#close(1009, "the frame is too large");
    if (++this.#waiting > FRAMES_MAX) return this.#close(1008, "too many frames at once");
    const text = typeof frame === "string" ? frame : new TextDecoder().decode(frame);
    this.#frames = this.#frames.then(async () => {
      try {
        if (this.#key?.isFresh === false && !(await this.#key.check())) return;
        await this.#receive(text);
      } catch (error) {
        this.#refuse(visible(error), undefined, {});
      } finally {
        this.#waiting -= 1;
      }
    });
  }

  async #receive(text: string): Promise<void> {
    const excess = checkBounds(text);
    let frame: unknown;
    try {
      frame = JSON.parse(text);
    } catch {
      throw invalid("The frame is not valid JSON");
    }
    if (Array.isArray(frame) ? frame.length > 0 : isObject(frame) && frame.jsonrpc !== undefined && frame.type === undefined) {
      if (excess !== undefined) throw excess;
      return await this.#receiveRpc(text, frame);
    }
    if (!isObject(frame)) throw invalid(`A frame is a JSON object; ${FRAMES}`);
    if (typeof frame.__ack === "string") {
      if (frame.__ack === `${this.#id}_1`) this.#isReliable = true;
      return;
    }
    await this.#receiveTyped(frame, bytesOf(text), excess);
  }

  async #receiveTyped(frame: Data, size: number, excess: EdgeError | undefined): Promise<void> {
    const { type } = frame;
    if (type === undefined || type === null) {
      if ("__ack" in frame || "__payload" in frame || "category" in frame) return;
      throw invalid(`A frame must have a type; ${FRAMES}`);
    }
    if (typeof type !== "string") throw invalid("The type of a frame is a text");
    if (type === "auth") return await this.#authenticate(frame.headers);
    if (type === "subscribe") return await this.#subscribe(frame);
    if (type === "unsubscribe") return await this.#peer?.unlisten(String(frame.sessionId ?? ""));
    if (type.endsWith(SUFFIX)) return await this.#command(type.slice(0, -SUFFIX.length), frame.data, size, excess);
    if (isEventType(type) || frame.category !== undefined) return;
    throw invalid(`There is no frame of type ${JSON.stringify(shorten(type))}; ${FRAMES}`);
  }

  async #authenticate(headers: unknown): Promise<void> {
    if (this.#peer !== undefined) return;
    const found = isObject(headers) ? Object.entries(headers).find(([name]) => name.toLowerCase() === "authorization")?.[1] : "";
    try {
      const token = bearer(typeof found === "string" ? found : "");
      this.#enter({ token, principal: await authenticate(this.#env, token) });
    } catch (error) {
      if (error instanceof Failure && error.code === "unauthenticated") return this.#close(4401, "unauthenticated");
      throw error;
    }
    for (const text of this.#held.splice(0)) {
      try {
        await this.#receive(text);
      } catch (error) {
        // Those after it are still to be answered.
        this.#refuse(visible(error), undefined, {});
      }
    }
  }

  /** Keeps a frame until the credentials have come; false if there is no room for it. */
  #hold(text: string): boolean {
    if (this.#held.length >= HELD_MAX || this.#heldCharacters + text.length > HELD_MAX_CHARACTERS) return false;
    this.#heldCharacters += text.length;
    this.#held.push(text);
    return true;
  }

  async #subscribe(frame: Data): Promise<void> {
    if (this.#peer === undefined) {
      this.#hold(JSON.stringify(frame));
      return;
    }
    const { sessionId, containerId, afterCursor } = frame;
    if (afterCursor !== undefined && !(typeof afterCursor === "string" && /^\d{1,15}$/.test(afterCursor))) {
      throw invalid("afterCursor must be the `cursor` of an event, a string of digits");
    }
    if (typeof sessionId === "string" && sessionId !== "") return await replay(this.#peer, sessionId, afterCursor === undefined ? null : Number(afterCursor));
    if (typeof containerId === "string" && containerId !== "") await this.#peer.follow(await this.#peer.principal.place(containerId));
  }

  async #command(name: string, given: unknown, size: number, excess: EdgeError | undefined): Promise<void> {
    const requestId = isObject(given) && typeof given.requestId === "string" ? given.requestId : undefined;
    const data = isObject(given) ? given : {};
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    const refused = command?.refused?.(data) ?? {};
    try {
      if (command === undefined) throw new Failure("unknown_command", `Unknown command: ${shorten(name)}_request`);
      if (this.#peer === undefined) throw unauthenticated(NOT_YET);
      if (excess !== undefined) throw excess;
      if (!isObject(given)) throw invalid("data must be an object");
      const most = name === "message_send" ? MESSAGE_MAX_BYTES : DATA_MAX_BYTES;
      if (size > most) throw tooLarge(`The data of ${name} has ${size.toLocaleString("en-US")} bytes; at most ${most.toLocaleString("en-US")} are allowed`);
      this.#write(this.#form(encodeReply(name, requestId, await command.run(this.#peer, data))));
      this.#peer?.replied();
    } catch (error) {
      const known = visible(error);
      this.#refuse(known, requestId, data);
      this.#write(this.#form(encodeReply(shorten(name), requestId, { ...refused, error: known.message, errorCode: known.code })));
    }
  }

  #refuse(error: EdgeError, requestId: string | undefined, data: Data): void {
    if (this.#rpc === undefined) this.#write(this.#form(encodeError(error, requestId, data)));
    else this.#write(this.#rpc.refusal(error));
  }

  // --- JSON-RPC

  async #receiveRpc(text: string, frame: unknown): Promise<void> {
    this.#rpc ??= new RpcPeer((frameText) => this.#write(frameText));
    const headers = this.#rpc.credentials(frame);
    if (this.#peer === undefined) {
      if (headers !== undefined) return await this.#authenticate(headers);
      if (!this.#hold(text)) this.#write(this.#rpc.refusal(unauthenticated(NOT_YET)));
      return;
    }
    if (!this.#peer.followsAll) await this.#peer.followAll(await this.#peer.principal.place(this.#peer.principal.home));
    await this.#rpc.receive(this.#peer, frame);
  }

  // --- frames for the client

  #tell(batch: Batch): void {
    // The key was looked up for the frame that is being answered, whose events come before its reply.
    if ((this.#waiting > 0 || this.#key?.isFresh !== false) && this.#unheard.length === 0) return this.#say(batch);
    if (this.#unheard.push(batch) > FRAMES_MAX) return this.#close(1008, "too many events at once");
    if (this.#unheard.length > 1) return;
    this.#waitUntil((this.#key?.check() ?? Promise.resolve(true)).then((isValid) => {
      for (const waiting of this.#unheard.splice(0)) if (isValid) this.#say(waiting);
    }));
  }

  #say(batch: Batch): void {
    if (this.#rpc !== undefined) this.#rpc.tell(batch);
    else for (const text of encodeBatch(batch)) this.#write(this.#form(text));
  }

  #form(text: string): string {
    return this.#isReliable ? this.#wrap(text) : text;
  }

  #wrap(text: string): string {
    this.#wrapped += 1;
    return JSON.stringify({ __msgId: `${this.#id}_${this.#wrapped}`, __payload: text });
  }

  #write(text: string): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(text);
  }
}
