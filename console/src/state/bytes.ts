/** Bytes of files as the JSON of the API has them: text where it is text, else base64. */

const SLICE_BYTES = 32_768;

/** The text of UTF-8; undefined for anything else. */
export function textOf(data: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return undefined;
  }
}

export function base64(data: Uint8Array): string {
  let text = "";
  for (let at = 0; at < data.length; at += SLICE_BYTES) text += String.fromCodePoint(...data.subarray(at, at + SLICE_BYTES));
  return btoa(text);
}
