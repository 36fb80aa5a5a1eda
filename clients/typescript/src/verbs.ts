/** Verbs — functions that are named by a noun and a verb, made when they are first called. */

const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** An object whose `noun.verb(...)` calls the function with both names as the operation table writes them. */
export function nouns<T>(call: (noun: string, verb: string, ...rest: unknown[]) => unknown): T {
  const members = (of: (name: string) => unknown) =>
    // A promise has a `then`, and nothing here is one.
    new Proxy({}, { get: (_, name) => (typeof name === "string" && name !== "then" ? of(snake(name)) : undefined) });
  return members((noun) => members((verb) => (...rest: unknown[]) => call(noun, verb, ...rest))) as T;
}
