/** The start of the console: language, theme, identity, then the page of the address. */

import { effect } from "@preact/signals";
import { render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { LocationProvider } from "preact-iso/router";
import { connect, disconnect } from "./link/socket.ts";
import { hasExpired, identify, identifyOffline, identity, watchTabs } from "./link/who.ts";
import { startWorker } from "./link/worker.ts";
import Login from "./pages/login.tsx";
import { Shell } from "./shell.tsx";
import { loadPreferences } from "./state/preferences.ts";
import "./style/index.css";
import { startTheme } from "./theme.ts";
import { latePage } from "./ui/late.tsx";
import { startLanguage } from "./words/index.ts";

const RETRY_MS = 2_000;
const ACCEPT = "/invitations/accept";

/** Pages for people who need not be signed in, outside the frame. */
const Accept = latePage(() => import("./pages/people/accept.tsx"));
const Diagnose = latePage(() => import("./pages/people/diagnose.tsx"));

function App() {
  if (location.pathname === ACCEPT) return <Accept />;
  if (identity.value === undefined) return null;
  if (identity.value === null && location.pathname === "/diagnose") {
    return <LocationProvider><Diagnose /></LocationProvider>;
  }
  if (identity.value === null) return <Login />;
  return (
    <>
      {hasExpired.value && <SignInAgain />}
      <LocationProvider>
        <Shell />
      </LocationProvider>
    </>
  );
}

/** The sign-in page over everything, dialogs included, which are as they were when the user is back. */
function SignInAgain() {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const focused = document.activeElement;
    dialog.current?.showModal();
    return () => requestAnimationFrame(() => focused instanceof HTMLElement && focused.focus());
  }, []);
  return (
    <dialog ref={dialog} class="again" aria-label="AgentVM" onCancel={(event) => event.preventDefault()} onClose={() => dialog.current?.showModal()}>
      <Login />
    </dialog>
  );
}

async function findIdentity(): Promise<void> {
  for (;;) {
    try {
      return await identify();
    } catch {
      // The server is starting or away: what this browser has kept of the last visit is shown, and asked about when it is back.
      if (identifyOffline()) return;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** Applies the styles, which the document fetches as those of print, so that its frame is painted before they have come. */
async function applyStyles(): Promise<void> {
  const link = document.querySelector<HTMLLinkElement>('link[media="print"]');
  if (link === null) return;
  const ended = link.sheet === null && new Promise((resolve) => (link.onload = link.onerror = resolve));
  link.media = "all";
  await ended;
}

async function start(): Promise<void> {
  const styled = applyStyles();
  if (sessionStorage.getItem("avm.count") !== null) await import("./count.ts");
  startTheme();
  watchTabs();
  startWorker();
  const identified = findIdentity();
  await Promise.all([styled, startLanguage().catch(() => undefined)]);
  // Until then the frame of the document stands.
  if (location.pathname !== ACCEPT) await identified;
  const app = document.getElementById("app") as HTMLElement;
  // Preact keeps what it finds there and cannot use.
  app.replaceChildren();
  render(<App />, app);
  await identified;
  effect(() => (identity.value === null || hasExpired.value ? disconnect() : connect()));
  effect(() => void (identity.value && loadPreferences().catch(() => undefined)));
}

void start();
