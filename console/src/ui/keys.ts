/** The keys of the console. */

export type KeyCommand = "palette" | "newChat" | "keys" | "previous" | "next";

type Pressed = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey" | "isComposing">;

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

const STORED = "avm.singleKeys";
export const singleKeys = {
  get: () => localStorage.getItem(STORED) !== "off",
  set: (isOn: boolean) => localStorage.setItem(STORED, isOn ? "on" : "off"),
};
