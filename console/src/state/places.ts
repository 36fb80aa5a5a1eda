/** Places in a JSON text: where it is broken, and the line of a field. */

interface Fault {
  line: number;
  message: string;
}

/** The line of each field by its path (`tools.0`), from 1; and the first fault of a text that is not JSON. */
export function readPlaces(text: string): { lines: ReadonlyMap<string, number>; fault: Fault | undefined } {
  const reader = new Reader(text);
  try {
    reader.value("");
    reader.end();
  } catch (thrown) {
    if (!(thrown instanceof Broken)) throw thrown;
    return { lines: reader.lines, fault: { line: reader.lineOf(thrown.at), message: thrown.message } };
  }
  return { lines: reader.lines, fault: undefined };
}

/** The line of a path; of the nearest field above it for one that is not there. */
export function lineOfPath(lines: ReadonlyMap<string, number>, path: string): number {
  for (let parts = path.split("."); parts.length > 0; parts = parts.slice(0, -1)) {
    const line = lines.get(parts.join("."));
    if (line !== undefined) return line;
  }
  return 1;
}

class Broken extends Error {
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

const SPACE = /\s*/y;
const STRING = /"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/uy;
const OTHER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

class Reader {
  readonly lines = new Map<string, number>();
  #at = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  value(path: string): void {
    this.#take(SPACE);
    if (!this.lines.has(path)) this.lines.set(path, this.lineOf(this.#at));
    if (this.#text[this.#at] === "{") this.#list("}", () => this.#member(path));
    else if (this.#text[this.#at] === "[") this.#list("]", (index) => this.value(within(path, String(index))));
    else if (this.#take(STRING) === undefined && this.#take(OTHER) === undefined) this.#fail();
  }

  end(): void {
    this.#take(SPACE);
    if (this.#at < this.#text.length) this.#fail();
  }

  lineOf(at: number): number {
    return this.#text.slice(0, at).split("\n").length;
  }

  #list(close: string, item: (index: number) => void): void {
    this.#at++;
    this.#take(SPACE);
    if (this.#text[this.#at] !== close) {
      for (let index = 0; ; index++) {
        item(index);
        this.#take(SPACE);
        if (this.#text[this.#at] !== ",") break;
        this.#at++;
      }
    }
    if (this.#text[this.#at] !== close) this.#fail();
    this.#at++;
  }

  #member(path: string): void {
    this.#take(SPACE);
    const start = this.#at;
    const name = this.#take(STRING);
    if (name === undefined) this.#fail();
    const inner = within(path, JSON.parse(name!) as string);
    this.lines.set(inner, this.lineOf(start));
    this.#take(SPACE);
    if (this.#text[this.#at] !== ":") this.#fail();
    this.#at++;
    this.value(inner);
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [taken] = pattern.exec(this.#text) ?? [];
    if (taken !== undefined) this.#at += taken.length;
    return taken;
  }

  #fail(): never {
    throw new Broken(this.#at, this.#text.slice(this.#at, this.#at + 12).split("\n")[0]!);
  }
}

const within = (path: string, name: string) => (path === "" ? name : `${path}.${name}`);
