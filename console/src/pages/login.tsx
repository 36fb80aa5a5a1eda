import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../link/http.ts";
import { endReason, loadMethods, offered, oidcStart, signIn } from "../link/who.ts";
import { Prose } from "../ui/parts.tsx";
import { said } from "../ui/problem.tsx";
import { words } from "../words/index.ts";

/** The page to go on with: where the user was, but not this page. */
const next = () => (location.pathname === "/login" ? "/" : location.pathname + location.search);

/** Signing in with an API key or at the identity provider, and the reason why the last session has ended. */
export default function Login(): JSX.Element {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [keep, setKeep] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => void loadMethods().catch(() => undefined), []);
  const oidcProblem = new URLSearchParams(location.search).get("problem");

  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setProblem("");
    try {
      await signIn(String(form.get("key")).trim(), keep);
      if (location.pathname === "/login") history.replaceState(null, "", "/");
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setBusy(false);
    }
  }

  useEffect(() => field.current?.focus(), []);
  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)}>
        <h1>AgentVM</h1>
        <p role="status" class="notice">
          {(location.pathname === "/login" && oidcProblem !== null ? words.value.oidcProblems[oidcProblem] : undefined) ?? words.value.ended[endReason.value] ?? ""}
        </p>
        <label for="key">{words.value.keyLabel}</label>
        <input ref={field} id="key" name="key" type="password" autocomplete="current-password" placeholder="avm_…" required aria-describedby="key-hint" />
        <p id="key-hint" class="hint"><Prose text={words.value.keyHint} /></p>
        <label class="check"><input name="keep" type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} /> {words.value.keepSignedIn}</label>
        <p role="alert" class="problem">{problem}</p>
        <button type="submit" class="btn btn-ink" disabled={busy}>{words.value.signIn}</button>
        {offered.value?.oidc !== undefined && (
          <button type="button" class="btn" disabled={busy} onClick={() => void oidcStart({ next: next(), keep }).catch((error: unknown) => setProblem(problemOf(error)))}>
            {words.value.signInWith(offered.value.oidc)}
          </button>
        )}
        <a class="hint" href="/diagnose">{words.value.pages.diagnose}</a>
      </form>
    </main>
  );
}

function problemOf(error: unknown): string {
  if (error instanceof ApiError && error.status === 401) return words.value.keyProblems[error.reason] ?? words.value.wrongKey;
  return said(error);
}
