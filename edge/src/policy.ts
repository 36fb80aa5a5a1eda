/**
 * Policy — decides whether a tool call runs, waits for an approval, or is denied: by the rules of the image, and by those of a
 * server whose operator has set none. An image only tightens. Nobody is known here by name, so who may approve cannot be checked:
 * a call that only certain people may approve is denied.
 */

import type { Effect, World } from "./records.ts";

type Scalar = string | number | boolean | null;

interface Condition {
  eq?: Scalar;
  ne?: Scalar;
  in?: Scalar[] | null;
  lt?: number | null;
  gt?: number | null;
  glob?: string | null;
  exists?: boolean | null;
}

export interface Approval {
  audience?: string;
  notSender?: boolean;
  expires?: string;
}

/** A rule. A call has to match every given member; the first one that matches decides. */
export interface PolicyRule {
  do: "allow" | "ask" | "deny";
  tool?: string | null;
  runtime?: string | null;
  effect?: string | null;
  world?: string | null;
  tier?: string | null;
  tainted?: boolean | null;
  unattended?: boolean | null;
  when?: Record<string, Condition> | null;
  ask?: Approval | null;
}

/** The properties of a call that rules can match. */
export interface CallFacts {
  tool: string;
  runtime: string;
  effect: Effect;
  world: World;
  /** The prompt holds text of strangers. */
  tainted: boolean;
  /** The author of the tool wants every call approved. */
  asks: boolean;
  input: Record<string, unknown>;
}

export interface Verdict {
  do: "allow" | "ask" | "deny";
  why: string;
  /** How long the call waits for an approval, if a rule says so. */
  expiresMs?: number;
}

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;
const UNITS_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const EXPIRES_MAX_MS = 366 * 86_400_000;

const SHIPPED: readonly PolicyRule[] = [
  { effect: "destructive", do: "ask" },
  { effect: "write", world: "open", do: "ask" },
  { do: "allow" },
];

/** Decides about one call: the strictest of those who have spoken wins. */
export function decide(call: CallFacts, image: readonly PolicyRule[]): Verdict {
  const verdicts = [spoken("image", image, call), spoken("default", SHIPPED, call)].filter((verdict) => verdict !== undefined);
  if (call.asks) verdicts.push({ do: "ask", why: "the tool's author asks for approval" });
  const strictest = Math.max(...verdicts.map((verdict) => STRICTNESS[verdict.do]));
  const deciding = verdicts.filter((verdict) => STRICTNESS[verdict.do] === strictest);
  const expiries = deciding.flatMap(({ expiresMs }) => (expiresMs === undefined ? [] : [expiresMs]));
  return { do: deciding[0]?.do ?? "deny", why: deciding.map(({ why }) => why).join("; "), ...(expiries.length > 0 ? { expiresMs: Math.min(...expiries) } : {}) };
}

function spoken(layer: string, rules: readonly PolicyRule[], call: CallFacts): Verdict | undefined {
  const place = rules.findIndex((rule) => matches(call, rule));
  const rule = rules[place];
  if (rule === undefined) return undefined;
  const why = `${layer} rule ${place + 1}: ${reasonOf(rule)}`;
  const { audience = "sender", notSender = false, expires } = rule.ask ?? {};
  if (rule.do === "ask" && (audience !== "sender" || notSender)) return { do: "deny", why: `${why}; who may approve it is not known at the edge` };
  return { do: rule.do, why, ...(expires === undefined ? {} : { expiresMs: durationMs(expires) }) };
}

const durationMs = (text: string): number => Math.min(Number(text.slice(0, -1)) * (UNITS_MS[text.slice(-1)] ?? 0), EXPIRES_MAX_MS);

/** The members of a rule that a call has matched, for people. */
function reasonOf(rule: PolicyRule): string {
  const tainted = given(rule.tainted) ? [rule.tainted ? "tainted" : "not tainted"] : [];
  const unattended = given(rule.unattended) ? [rule.unattended ? "unattended" : "attended"] : [];
  const named = [rule.tool, rule.runtime, rule.world, rule.effect].filter(given);
  const inputs = Object.keys(rule.when ?? {}).map((pointer) => `input ${pointer || "/"}`);
  return [...tainted, ...unattended, ...named, ...inputs].join(", ") || "any call";
}

const given = <T>(value: T | null | undefined): value is T => value !== undefined && value !== null;

function matches(call: CallFacts, rule: PolicyRule): boolean {
  if (given(rule.tool) && !fitsGlob(call.tool, rule.tool)) return false;
  // A call is decided about before its tier is chosen; and here somebody always can be asked.
  const facts = { runtime: call.runtime, effect: call.effect, world: call.world, tier: null, tainted: call.tainted, unattended: false };
  for (const name of ["runtime", "effect", "world", "tier", "tainted", "unattended"] as const) if (given(rule[name]) && rule[name] !== facts[name]) return false;
  return Object.entries(rule.when ?? {}).every(([pointer, condition]) => holds(valueAt(call.input, pointer), condition));
}

/** Whether a value meets every part of a condition; an absent one meets only `ne` and `exists: false`. */
function holds(value: unknown, condition: Condition): boolean {
  if (given(condition.exists) && condition.exists !== (value !== undefined)) return false;
  if (condition.ne !== undefined && value === condition.ne) return false;
  if (condition.eq !== undefined && value !== condition.eq) return false;
  if (given(condition.in) && !condition.in.includes(value as Scalar)) return false;
  if (given(condition.glob) && !(typeof value === "string" && fitsGlob(value, condition.glob))) return false;
  if (given(condition.lt) && !(typeof value === "number" && value < condition.lt)) return false;
  return !given(condition.gt) || (typeof value === "number" && value > condition.gt);
}

/** The value at a JSON pointer; undefined if there is none. */
function valueAt(input: unknown, pointer: string): unknown {
  let value = input;
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = /^\d{1,9}$/.test(name) ? value[Number(name)] : undefined;
    else value = typeof value === "object" && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
  }
  return value;
}

type Piece = "*" | ((character: string) => boolean);

/** Whether a text fits a pattern with `*`, `?`, `[seq]` and `[!seq]`; in no more steps than both are long, multiplied. */
export function fitsGlob(text: string, pattern: string): boolean {
  const [characters, pieces] = [Array.from(text), piecesOf(pattern)];
  let [at, piece, star, from] = [0, 0, -1, 0];
  while (at < characters.length) {
    const wanted = pieces[piece];
    if (wanted === "*") [star, from, piece] = [piece, at, piece + 1];
    else if (wanted?.(characters[at] ?? "")) [at, piece] = [at + 1, piece + 1];
    else if (star >= 0) [from, at, piece] = [from + 1, from + 1, star + 1];
    else return false;
  }
  return pieces.slice(piece).every((rest) => rest === "*");
}

function piecesOf(pattern: string): Piece[] {
  const characters = Array.from(pattern);
  const pieces: Piece[] = [];
  for (let at = 0; at < characters.length; at++) {
    const one = characters[at] ?? "";
    // The first character of a set may be its own closing bracket.
    const end = one === "[" ? characters.indexOf("]", at + (characters[at + 1] === "!" ? 3 : 2)) : -1;
    if (one === "*") pieces.push("*");
    else if (one === "?") pieces.push(() => true);
    else if (end < 0) pieces.push((character) => character === one);
    else {
      pieces.push(setOf(characters.slice(at + 1, end)));
      at = end;
    }
  }
  return pieces;
}

function setOf(inside: readonly string[]): Piece {
  const isInverted = inside[0] === "!";
  const ranges: [string, string][] = [];
  for (let at = isInverted ? 1 : 0; at < inside.length; at++) {
    const first = inside[at] ?? "";
    const isRange = inside[at + 1] === "-" && at + 2 < inside.length;
    ranges.push([first, isRange ? (inside[at + 2] ?? "") : first]);
    if (isRange) at += 2;
  }
  const order = (character: string): number => character.codePointAt(0) ?? 0;
  return (character) => ranges.some(([first, last]) => order(first) <= order(character) && order(character) <= order(last)) !== isInverted;
}
