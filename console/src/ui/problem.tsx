import type { ComponentChildren, JSX } from "preact";
import { ApiError } from "../link/http.ts";
import { may } from "../routes.ts";
import { language, words } from "../words/index.ts";

/** The sentence of an error in the language in use; what the server says if there is none. */
export function sentence(code: string, text: string): string {
  return words.value.problems[code] ?? text;
}

/** A failure in one sentence. The server speaks English, and says more than the sentence of a code. */
export function said(error: unknown): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  return language.value === "en" ? error.message : (words.value.fault(error.message) ?? sentence(error.code, error.message));
}

/** The place where an error can be mended, for those who may. */
export function remedy(code: string): [href: string, label: string] | undefined {
  if (code === "quota_exceeded") return ["/me", words.value.myLimits];
  if (code === "wallet_empty" && may("tenants:admin")) return ["/wallet", words.value.addCredit];
  if ((code.startsWith("provider_") || code.startsWith("model_") || code === "driver_not_found") && may("config:read"))
    return ["/settings/providers", words.value.checkSettings];
  return undefined;
}

/** What failed, its code, what the server said of it, and what can be done. */
export function Problem({ code, text, children }: { code: string; text: string; children?: ComponentChildren }): JSX.Element {
  const said = sentence(code, text);
  const place = remedy(code);
  return (
    <div class="refusal" role="alert">
      <p class="problem">{said}</p>
      <p class="hint" dir="auto">
        <code>{code}</code>
        {said !== text && <> · {text}</>}
      </p>
      <div class="decision-row">
        {children}
        {place && <a class="btn" href={place[0]}>{place[1]}</a>}
      </div>
    </div>
  );
}
