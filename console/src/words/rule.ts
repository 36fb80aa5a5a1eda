/** The rules of the policy in words. */

import { words } from "./index.ts";

const RULE = /^(\w+) rule (\d+): (.*)$/;

/** "default rule 1: destructive" names the rule and what the call has matched; anything else is shown as it is. */
export function reasonsOf(why: string): string {
  const { ruleFacts, ruleOf } = words.value;
  const reasons = why.split("; ").map((reason) => {
    const [, layer, number, facts] = RULE.exec(reason) ?? [];
    if (facts === undefined) return ruleFacts[reason] ?? reason;
    return ruleOf(facts.split(", ").map((fact) => ruleFacts[fact] ?? fact), layer!, Number(number));
  });
  return reasons.join("; ");
}
