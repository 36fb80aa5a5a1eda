import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { identity } from "../../link/who.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Page } from "../../ui/page.tsx";
import { words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";

type Step = "http" | "socket" | "idle" | "upload" | "clock";
interface Result {
  state: "ok" | "bad" | "skipped";
  text: string;
}

const STEPS: readonly Step[] = ["http", "clock", "upload", "socket", "idle"];
const IDLE_SECONDS = 35;
const CLOCK_MAX_SECONDS = 60;
const UPLOAD_BYTES = 1_048_576;
const OPEN_MS = 10_000;

/** Checks the way between this browser and the server, and names what a proxy on it does wrong. */
export default function Diagnose(): JSX.Element {
  const [results, setResults] = useState<Partial<Record<Step, Result>>>({});
  const [running, setRunning] = useState<Step | undefined>(undefined);
  const found = useRef<Partial<Record<Step, Result>>>({});
  const text = peopleWords.value.diagnose;

  async function run(): Promise<void> {
    found.current = {};
    for (const step of STEPS) {
      setRunning(step);
      const result = found.current.http?.state === "bad" || (step === "idle" && found.current.socket?.state !== "ok") ? { state: "skipped" as const, text: "" } : await CHECKS[step]();
      found.current = { ...found.current, [step]: result };
      setResults(found.current);
    }
    setRunning(undefined);
  }

  return (
    <Page title={words.value.pages.diagnose} tools={<Button primary disabled={running !== undefined} onClick={() => void run()}>{running === undefined ? peopleWords.value.start : peopleWords.value.checking}</Button>}>
      <p>{text.intro}</p>
      <p class="unseen" role="status">{running === undefined ? "" : `${peopleWords.value.checking}${words.value.colon}${text[running]}`}</p>
      <ul class="steps">
        {STEPS.map((step) => {
          const result = results[step];
          return (
            <li key={step} data-step={step} data-state={result?.state}>
              <span class={`step-${result?.state}`} aria-hidden="true">{result === undefined ? (running === step ? "…" : "·") : result.state === "ok" ? "✓" : result.state === "bad" ? "×" : "–"}</span>
              <span>{text[step]}</span>
              <span class={result?.state === "bad" ? "problem" : "hint"}>{result !== undefined && text[result.state]}</span>
              {result !== undefined && result.text !== "" && <span class={result.state === "bad" ? "problem hint" : "hint"}>{result.text}</span>}
            </li>
          );
        })}
      </ul>
    </Page>
  );
}

const good = (text = ""): Result => ({ state: "ok", text });
const bad = (text: string): Result => ({ state: "bad", text });

const CHECKS: Record<Step, () => Promise<Result>> = {
  async http() {
    try {
      const { status, version } = (await (await fetch("/health", { cache: "no-store" })).json()) as { status: string; version: string };
      return status === "ok" ? good(peopleWords.value.diagnose.version(version)) : bad(peopleWords.value.diagnose.httpBad);
    } catch {
      return bad(peopleWords.value.diagnose.httpBad);
    }
  },
  async clock() {
    const before = Date.now();
    const date = Date.parse((await fetch("/health", { cache: "no-store" })).headers.get("date") ?? "");
    const seconds = Math.round(Math.abs(date - (before + Date.now()) / 2) / 1_000);
    return !Number.isFinite(seconds) || seconds <= CLOCK_MAX_SECONDS ? good() : bad(peopleWords.value.diagnose.clockBad(seconds));
  },
  async upload() {
    // The server refuses this body itself, and says so in its own way; nothing is stored.
    try {
      const response = await fetch("/v1/auth/invitation", { method: "POST", body: new Uint8Array(UPLOAD_BYTES) });
      return response.headers.has("x-request-id") ? good() : bad(peopleWords.value.diagnose.uploadBad(response.status));
    } catch {
      // A server that refuses a large body may close the connection before all of it was sent.
      return good();
    }
  },
  socket: () => hold(0),
  idle: () => (identity.value ? hold(IDLE_SECONDS) : Promise.resolve({ state: "skipped", text: peopleWords.value.diagnose.needsSignIn })),
};

/** Opens a connection of its own and keeps it for so many seconds without a word. */
function hold(seconds: number): Promise<Result> {
  return new Promise((done) => {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws`);
    let opened = 0;
    const timers = [setTimeout(() => end(bad(peopleWords.value.diagnose.socketBad)), OPEN_MS)];
    function end(result: Result): void {
      for (const timer of timers) clearTimeout(timer);
      socket.onclose = null;
      socket.close();
      done(result);
    }
    socket.onopen = () => {
      clearTimeout(timers[0]);
      opened = Date.now();
      timers.push(setTimeout(() => end(good()), seconds * 1_000));
    };
    socket.onclose = () => end(bad(opened === 0 ? peopleWords.value.diagnose.socketBad : peopleWords.value.diagnose.idleBad(Math.round((Date.now() - opened) / 1_000))));
  });
}
