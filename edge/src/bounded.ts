/** Bounded — reads a response only so far: an isolate has 128 MB for all of its clients. */

/** The text of a response up to a number of bytes, and whether that is all of it. The rest is not fetched. */
export async function readText(response: Response, maxBytes: number): Promise<{ text: string; isWhole: boolean }> {
  const reader = response.body?.getReader();
  const chunks: Uint8Array[] = [];
  for (let size = 0; reader !== undefined; ) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value.subarray(0, maxBytes - size));
    size += value.byteLength;
    if (size <= maxBytes) continue;
    await reader.cancel().catch(() => {});
    return { text: await textOf(chunks), isWhole: false };
  }
  return { text: await textOf(chunks), isWhole: true };
}

const textOf = async (chunks: Uint8Array[]): Promise<string> => await new Blob(chunks as BlobPart[]).text();
