/** The keys of the console. */

export type KeyCommand = "palette" | "newChat" | "keys" | "previous" | "next";

type Pressed = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey" | "isComposing">;

/** The letters that lead to an area after `g`. */
export const AREA_KEYS: Readonly<Record<string, string>> = {
  c: "/",
  a: "/agents",
  r: "/resources",
  y: "/activity",
  u: "/usage",
  p: "/people",
  s: "/settings",
  m: "/me",
};

const GO_MS = 2_000;

/** The keys, as they are listed. */
export const KEYS: readonly (readonly [keys: string, word: "keyPalette" | "keyNew" | "keySend" | "keyBreak" | "keyEscape" | "keyEdit" | "keyWalk" | "keyHelp"])[] = [
  ["Ctrl/⌘ K", "keyPalette"],
  ["Ctrl/⌘ ⇧ O", "keyNew"],
  ["Enter", "keySend"],
  ["⇧ Enter", "keyBreak"],
  ["Esc", "keyEscape"],
  ["↑", "keyEdit"],
  ["Alt ↑ ↓", "keyWalk"],
  ["?", "keyHelp"],
];

/** What a key asks for. Keys of one character mean nothing while somebody writes, and can be switched off. */
export function commandOf(event: Pressed, isWriting: boolean, hasSingleKeys: boolean): KeyCommand | undefined {
  if (event.isComposing) return undefined;
  const isControl = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  if (isControl && !event.altKey) {
    if (key === "k" && !event.shiftKey) return "palette";
    if (key === "o" && event.shiftKey) return "newChat";
    return undefined;
  }
  if (event.altKey) return event.key === "ArrowUp" ? "previous" : event.key === "ArrowDown" ? "next" : undefined;
  return event.key === "?" && !isWriting && hasSingleKeys ? "keys" : undefined;
}

/** Reads `g` and a letter that is pressed soon after it. Returns the address of the area. */
export function areaReader(): (event: Pressed & Pick<KeyboardEvent, "timeStamp">, isWriting: boolean, hasSingleKeys: boolean) => string | undefined {
  let goneAt = -GO_MS;
  return (event, isWriting, hasSingleKeys) => {
    if (isWriting || !hasSingleKeys || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    const isAfter = event.timeStamp - goneAt < GO_MS;
    goneAt = event.key === "g" && !isAfter ? event.timeStamp : -GO_MS;
    return isAfter ? AREA_KEYS[event.key] : undefined;
  };
}

const STORED = "avm.singleKeys";
export const singleKeys = {
  get: () => localStorage.getItem(STORED) !== "off",
  set: (isOn: boolean) => localStorage.setItem(STORED, isOn ? "on" : "off"),
};
