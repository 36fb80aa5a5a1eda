import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { endReason, signIn } from "../link/who.ts";
import { words } from "../words/index.ts";

/** Signing in with an API key, and the reason why the last session has ended. */
export default function Login(): JSX.Element {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);

  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setProblem("");
    try {
      await signIn(String(form.get("key")).trim(), form.has("keep"));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  }

  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)}>
        <h1>AgentVM</h1>
        <p role="status" class="notice">{words.value.ended[endReason.value] ?? ""}</p>
        <label for="key">{words.value.keyLabel}</label>
        <input id="key" name="key" type="password" autocomplete="current-password" required aria-describedby="key-hint" />
        <p id="key-hint" class="hint">{words.value.keyHint}</p>
        <label class="check"><input name="keep" type="checkbox" /> {words.value.keepSignedIn}</label>
        <p role="alert" class="problem">{problem}</p>
        <button type="submit" class="btn btn-ink" disabled={busy}>{words.value.signIn}</button>
      </form>
    </main>
  );
}
