import type { JSX } from "preact";
import { exactMoney, money } from "../words/format.ts";

/** An amount of money; every digit of it is shown on hover. */
export function Money({ nano, isEstimate }: { nano: number; isEstimate?: boolean }): JSX.Element {
  return <data value={nano} title={exactMoney(nano)}>{isEstimate && "≈ "}{money(nano)}</data>;
}
