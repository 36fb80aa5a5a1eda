/** Settings as the management API shows them, and how a typed text becomes a value. */

import type { ChangeView as Change, Changed, OutcomeView as Outcome, SourceView as Source } from "../link/client.ts";

export type { Change, Changed, Outcome, Source };

export interface Setting extends Source {
  key: string;
  effective?: unknown;
  source: string;
  why: string;
  default?: unknown;
  type: string;
  doc: string;
  applies: "live" | "restart" | "boot";
  tenant: string;
  secret?: boolean;
  variable?: string;
  restartPending?: boolean;
  /** Absent where no layer has a value. */
  layers?: Source[];
}

export interface ConfigView {
  revision: number;
  tenantId?: string;
  pendingRestart?: string[];
  settings: Setting[];
}

/** Layers that somebody has set; values of the others came with the program. */
const UNCHANGED = new Set(["default", "derived", "unset"]);

export const isChanged = (setting: Setting) => !UNCHANGED.has(setting.source) && setting.layer !== "default" && setting.layer !== undefined;

export type Kind = { kind: "choice"; options: string[] } | { kind: "number" } | { kind: "text" } | { kind: "json" };

/** The control that a value is typed into. */
export function kindOf(setting: Pick<Setting, "type" | "secret">): Kind {
  const options = /^one of: (.+)$/.exec(setting.type)?.[1];
  if (options !== undefined) return { kind: "choice", options: options.split(", ") };
  if (/^a (whole )?number/.test(setting.type)) return { kind: "number" };
  if (/^(a text|an amount)/.test(setting.type)) return { kind: "text" };
  return { kind: "json" };
}

/** A value as it is typed. */
export const typed = (value: unknown, kind: Kind): string =>
  value === undefined || value === null ? "" : kind.kind === "json" ? JSON.stringify(value, null, 2) : String(value);

/** The value of a typed text; throws `SyntaxError` for a text that is not JSON where it must be. The server checks the rest. */
export function valueOf(text: string, kind: Kind): unknown {
  if (kind.kind === "json") return JSON.parse(text);
  // Something else than a number is for the server to refuse, in its words.
  if (kind.kind === "number") return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
  return text;
}

/** A value in one line. */
export function shown(value: unknown): string {
  if (value === undefined || value === null) return "—";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The group of a setting: the word before its first point. */
export const groupOf = (key: string) => key.split(".")[0] ?? key;
