/** The difference of two texts: by lines, and by words within a changed line. */

export interface Piece {
  kind: "same" | "gone" | "new";
  text: string;
}

export interface DiffLine {
  kind: "same" | "gone" | "new";
  /** Its number before and after; undefined where it does not stand. */
  before: number | undefined;
  after: number | undefined;
  /** The text; a changed line in pieces, of which those that differ are marked. */
  pieces: Piece[];
}

/** Beyond this many steps two texts have so little in common that their difference is all of both. */
const STEPS_MAX = 800;
const WORDS = /\p{Script=Han}|[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;

export function diffLines(before: string, after: string): DiffLine[] {
  let one = 0;
  let two = 0;
  const lines: DiffLine[] = grouped(compare(before.split("\n"), after.split("\n"))).map(({ kind, text }) => ({
    kind,
    before: kind === "new" ? undefined : ++one,
    after: kind === "gone" ? undefined : ++two,
    pieces: [{ kind, text }],
  }));
  let start = 0;
  while (start < lines.length) {
    let end = start;
    while (end < lines.length && lines[end]!.kind !== "same") end++;
    markWords(lines.slice(start, end));
    start = end + 1;
  }
  return lines;
}

/** The pieces of each change with what goes before what comes. */
function grouped(pieces: readonly Piece[]): Piece[] {
  const all: Piece[] = [];
  let fresh: Piece[] = [];
  for (const piece of pieces) {
    if (piece.kind === "new") fresh.push(piece);
    else if (piece.kind === "gone") all.push(piece);
    else {
      all.push(...fresh, piece);
      fresh = [];
    }
  }
  return [...all, ...fresh];
}

/** Marks the words that differ, of lines that replace each other: the first of those that go and the first that come, and so on. */
function markWords(changed: readonly DiffLine[]): void {
  const gone = changed.filter((line) => line.kind === "gone");
  const fresh = changed.filter((line) => line.kind === "new");
  for (let index = 0; index < Math.min(gone.length, fresh.length); index++) {
    const pieces = compare(wordsOf(gone[index]!), wordsOf(fresh[index]!));
    // Lines that share nothing but spaces are not versions of each other.
    if (!pieces.some((piece) => piece.kind === "same" && piece.text.trim() !== "")) continue;
    gone[index]!.pieces = joined(pieces.filter((piece) => piece.kind !== "new"));
    fresh[index]!.pieces = joined(pieces.filter((piece) => piece.kind !== "gone"));
  }
}

const wordsOf = (line: DiffLine) => line.pieces[0]!.text.match(WORDS) ?? [];

function joined(pieces: readonly Piece[]): Piece[] {
  const all: Piece[] = [];
  for (const piece of pieces) {
    const last = all.at(-1);
    if (last?.kind === piece.kind) last.text += piece.text;
    else all.push({ ...piece });
  }
  return all;
}

/** The shortest way from one list to the other (Myers). */
function compare(before: readonly string[], after: readonly string[]): Piece[] {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  const same = (text: string): Piece => ({ kind: "same", text });
  return [
    ...before.slice(0, head).map(same),
    ...middle(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...before.slice(before.length - tail).map(same),
  ];
}

function middle(before: readonly string[], after: readonly string[]): Piece[] {
  const traces: Map<number, number>[] = [];
  let furthest = new Map([[1, 0]]);
  for (let steps = 0; steps <= Math.min(before.length + after.length, STEPS_MAX); steps++) {
    traces.push(furthest);
    const next = new Map(furthest);
    for (let diagonal = -steps; diagonal <= steps; diagonal += 2) {
      let one = isDown(furthest, diagonal, steps) ? (furthest.get(diagonal + 1) ?? 0) : (furthest.get(diagonal - 1) ?? 0) + 1;
      while (one < before.length && one - diagonal < after.length && before[one] === after[one - diagonal]) one++;
      next.set(diagonal, one);
      if (one >= before.length && one - diagonal >= after.length) return walkBack(before, after, traces);
    }
    furthest = next;
  }
  return [...before.map((text): Piece => ({ kind: "gone", text })), ...after.map((text): Piece => ({ kind: "new", text }))];
}

function isDown(furthest: ReadonlyMap<number, number>, diagonal: number, steps: number): boolean {
  return diagonal === -steps || (diagonal !== steps && (furthest.get(diagonal - 1) ?? -1) < (furthest.get(diagonal + 1) ?? -1));
}

function walkBack(before: readonly string[], after: readonly string[], traces: readonly ReadonlyMap<number, number>[]): Piece[] {
  const pieces: Piece[] = [];
  let one = before.length;
  let two = after.length;
  for (let steps = traces.length - 1; steps >= 0; steps--) {
    const furthest = traces[steps]!;
    const diagonal = one - two;
    const from = isDown(furthest, diagonal, steps) ? diagonal + 1 : diagonal - 1;
    const startOne = steps === 0 ? 0 : (furthest.get(from) ?? 0);
    const startTwo = steps === 0 ? 0 : startOne - from;
    while (one > startOne && two > startTwo) {
      pieces.push({ kind: "same", text: before[--one]! });
      two--;
    }
    if (steps === 0) break;
    if (one === startOne) pieces.push({ kind: "new", text: after[--two]! });
    else pieces.push({ kind: "gone", text: before[--one]! });
  }
  return pieces.reverse();
}
