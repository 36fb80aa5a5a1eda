import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { FilePart } from "../link/frames.ts";
import { addressOf, isPicture } from "../link/upload.ts";
import { words } from "../words/index.ts";

/** The files of a message: pictures are shown, everything else is a download. Nothing is loaded from elsewhere. */
export function Files({ files, containerId }: { files: FilePart[]; containerId: string }): JSX.Element | null {
  if (files.length === 0) return null;
  return (
    <ul class="files" aria-label={words.value.attached}>
      {files.map((file, index) => (
        <li key={index}><AttachedFile file={file} containerId={containerId} /></li>
      ))}
    </ul>
  );
}

function AttachedFile({ file, containerId }: { file: FilePart; containerId: string }): JSX.Element {
  const name = file.filename ?? file.name ?? file.mediaType;
  const address = useAddress(file, containerId);
  if (address === undefined) return <span class="chip" dir="auto">{name}</span>;
  const label = words.value.download(name);
  if (!isPicture(file.mediaType)) return <a class="chip" href={address} download={name} aria-label={label} dir="auto">{name}</a>;
  return <a href={address} download={name} aria-label={label} title={name}><img class="picture" src={address} alt={name} loading="lazy" /></a>;
}

/** Where the bytes of a file are: on this server, or in the message itself. */
function useAddress({ data, mediaType }: FilePart, containerId: string): string | undefined {
  const [made, setMade] = useState<string | undefined>(undefined);
  const stored = addressOf(data, containerId);
  useEffect(() => {
    if (stored !== undefined || data === "" || /^https?:/i.test(data)) return;
    const blob = decoded(data, mediaType);
    if (blob === undefined) return;
    const address = URL.createObjectURL(blob);
    setMade(address);
    return () => URL.revokeObjectURL(address);
  }, [data, stored]);
  return stored ?? made;
}

function decoded(data: string, mediaType: string): Blob | undefined {
  try {
    const bytes = Uint8Array.from(atob(data.replace(/^data:[^,]*,/, "")), (letter) => letter.charCodeAt(0));
    return new Blob([bytes], { type: isPicture(mediaType) ? mediaType : "application/octet-stream" });
  } catch {
    return undefined;
  }
}
