import type { QuotaView as Quota } from "../link/client.ts";
import type { JSX } from "preact";
import { distance, money, short } from "../words/format.ts";
import { language } from "../words/index.ts";
import { bytes } from "../words/measure.ts";
import { peopleWords } from "../words/people/index.ts";

export type { Quota };

/** An amount in the unit of its metric. */
export function amount(metric: string, value: number): string {
  if (metric.startsWith("budget")) return money(value);
  if (metric.includes("bytes")) return bytes(value);
  return short(value, language.value);
}

/** How much of a limit is used, as one bar with the mark of the warning. */
export function QuotaBar({ quota }: { quota: Quota }): JSX.Element {
  const { metric, used = 0, hard, soft, resetAt } = quota;
  const most = hard ?? soft;
  const share = most === undefined ? 0 : most === 0 ? 1 : Math.min(1, used / most);
  const state = hard !== undefined && used >= hard ? "full" : soft !== undefined && used >= soft ? "near" : "room";
  const text = peopleWords.value;
  return (
    <div class="quota">
      {most !== undefined && (
        <svg class={`quota-bar quota-${state}`} viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
          <path class="quota-room" d="M0 0H100V6H0z" />
          <path class="quota-used" d={`M0 0H${share * 100}V6H0z`} />
          {hard !== undefined && soft !== undefined && hard > 0 && <path class="quota-soft" d={`M${Math.min(100, (soft / hard) * 100)} 0V6`} />}
        </svg>
      )}
      <span>
        {most === undefined ? text.noLimit(amount(metric, used)) : text.usedOf(amount(metric, used), amount(metric, most))}
        {state === "full" && <b class="problem"> {text.quotaFull}</b>}
        {state === "near" && <b class="warn"> {text.quotaNear}</b>}
        {resetAt !== undefined && <span class="hint"> · {text.renewed(distance(resetAt, language.value, Date.now()))}</span>}
      </span>
    </div>
  );
}
