/** The lines of the command palette: conversations and commands that have every word that was typed. */

import type { SessionRow } from "../link/frames.ts";

export interface Line {
  id: string;
  label: string;
  kind: "conversation" | "command";
}

const SHOWN_MAX = 12;

export function linesOf(text: string, sessions: SessionRow[], commands: Line[], untitled: string): Line[] {
  const sought = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ label }: Line) => sought.every((word) => label.toLowerCase().includes(word));
  const conversations = sessions.map((row): Line => ({ id: row.sessionId, label: row.title ?? row.preview ?? untitled, kind: "conversation" }));
  const found = commands.filter(fits);
  return [...conversations.filter(fits).slice(0, SHOWN_MAX - Math.min(found.length, SHOWN_MAX / 2)), ...found];
}

/** The place after a step up or down, round the ends. */
export const stepped = (index: number, step: number, count: number) => (count === 0 ? 0 : (index + step + count) % count);
