import type { ComponentChildren, JSX } from "preact";
import type { ApiError } from "../link/http.ts";
import { may } from "../routes.ts";
import type { Loaded } from "../state/data.ts";
import { words } from "../words/index.ts";
import { Button } from "./button.tsx";
import { remedy, said } from "./problem.tsx";

/** What was read: bones while it is not there, the failure if it could not be read, else the content. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  if (of.data === undefined) return of.error === undefined ? <Bones /> : <Failure error={of.error} onRetry={() => void of.reload()} />;
  return (
    <>
      {of.error !== undefined && <Failure error={of.error} onRetry={() => void of.reload()} />}
      {children(of.data)}
    </>
  );
}

/** Lines where the content will be. They are drawn after 150 ms, by the style. */
export function Bones(): JSX.Element {
  return (
    <div class="bones" aria-busy="true" aria-label={words.value.loading} role="status">
      <i /><i /><i /><i />
    </div>
  );
}

/** What failed, its code, what to do, and the number by which it is found in the logs. */
export function Failure({ error, onRetry }: { error: ApiError; onRetry?: () => void }): JSX.Element {
  const isMissing = error.status === 404;
  const text = said(error);
  const place = remedy(error.code);
  return (
    <div class="failure" role="alert">
      <p class="problem" dir="auto">{isMissing ? words.value.notThere : text}</p>
      <p class="hint" dir="auto">
        <code>{error.code}</code>
        {!isMissing && text !== error.message && words.value.fault(error.message) === undefined && <> · {error.message}</>}
        {error.requestId !== "" && <> · <code>{error.requestId}</code></>}
        {error.requestId !== "" && may("logs:read") && <> · <a href={`/activity/logs?request=${encodeURIComponent(error.requestId)}`}>{words.value.showInLogs}</a></>}
      </p>
      {onRetry !== undefined && !isMissing && <Button onClick={onRetry}>{words.value.tryAgain}</Button>}
      {place && <a class="btn" href={place[0]}>{place[1]}</a>}
    </div>
  );
}

/** One sentence and one action. */
export function Empty({ children, action }: { children: ComponentChildren; action?: ComponentChildren }): JSX.Element {
  return (
    <div class="nothing">
      <p class="empty">{children}</p>
      {action}
    </div>
  );
}

/** For the reader of a list that has more pages. */
export function More({ more }: { more: (() => Promise<void>) | undefined }): JSX.Element | null {
  return more === undefined ? null : <Button onClick={() => void more()}>{words.value.showMore}</Button>;
}
