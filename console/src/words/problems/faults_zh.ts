/** Faults of a value, as the server says them in English (agentvm/errors/validation.py, agentvm/resources/schema.py), in Chinese. */

const PREFIX = /^(?:The content of \w+ does not fit|The (?:body|query) is invalid|The options are invalid|The input does not fit|input does not fit the tool|Invalid [\w./ ]+): /u;
const TYPES: Record<string, string> = {
  "a string": "字符串",
  "a whole number": "整数",
  "a number": "数字",
  "a fraction": "小数",
  "true/false": "true/false",
  "an array": "数组",
  "an object": "对象",
  null: "null",
  base64: "base64",
};
const SIZES: Record<string, string> = { "at least": "不小于", "at most": "不大于", "more than": "大于", "less than": "小于" };
const COUNTS: Record<string, string> = { "at least": "至少", "at most": "至多", "more than": "多于", "less than": "少于" };

/** The types of "a string or null"; none where one is not known. */
function types(verb: string, text: string): string | undefined {
  const names = text.replace("true or false", "true/false").split(" or ").map((each) => TYPES[each]);
  return names.includes(undefined) ? undefined : `${verb}${names.join("或")}`.replaceAll(/(?<=\p{Script=Han})(?=[a-z])|(?<=[a-z])(?=\p{Script=Han})/gu, " ");
}

type Form = readonly [RegExp, (...parts: string[]) => string | undefined];

const FORMS: readonly Form[] = [
  [/^(\S+) is missing$/u, (at) => `缺少 ${at}`],
  [/^there is no field (.+); did you mean (.+)\?$/u, (field, close) => `没有字段 ${field}，是不是想写 ${close}`],
  [/^there is no field (.+); it takes none$/u, (field) => `没有字段 ${field}，这里没有任何字段`],
  [/^there is no field (.+); there are (.+)$/u, (field, fields) => `没有字段 ${field}，可用的有 ${fields}`],
  [/^(\S+) must be one of (.+), not (.+)$/u, (at, values, value) => `${nameOf(at)}必须是 ${values} 之一，不能是 ${value}`],
  [/^(\S+) must be (.+), not (.+)$/u, (at, wanted, given) => both(at, types("必须是", wanted!), types("不能是", given!))],
  [/^(\S+) must be (.+) of (at least|at most|more than|less than) (\d+) (items|characters)$/u, (at, type, bound, count, unit) =>
    both(at, types("必须是", type!), `${COUNTS[bound!]} ${count} ${unit === "items" ? "项" : "个字符"}`)],
  [/^(\S+) must be (.+), (at least|at most|more than|less than) (\S+)$/u, (at, type, bound, limit) => both(at, types("必须是", type!), `${SIZES[bound!]} ${limit}`)],
  [/^(\S+) must match (.+)$/u, (at, pattern) => `${nameOf(at)}必须符合 ${pattern}`],
  [/^(\S+) must be the schema of an object: write (.+)$/u, (at, wanted) => `${at} 必须是对象的 schema：请写 ${wanted}`],
  [/^(\S+) is not a valid JSON Schema: (.+)$/u, (at, why) => `${at} 不是有效的 JSON Schema：${worded(why!) ?? why}`],
  [/^"(.+)" is a required property$/u, (at) => `缺少 ${at}`],
  [/^Additional properties are not allowed \((.+) (?:was|were) unexpected\)$/u, (fields) => `没有字段 ${fields}`],
  [/^(.+) is not of types? (.+)$/u, (value, type) => `${value} 的类型不是 ${type}`],
  [/^(.+) is not one of (.+)$/u, (value, values) => `${value} 不在 ${values} 之中`],
  [/^(.+) is (shorter|longer) than (\d+) characters?$/u, (value, way, count) => `${value} ${way === "shorter" ? "少于" : "多于"} ${count} 个字符`],
  [/^(.+) has (less|more) than (\d+) items?$/u, (value, way, count) => `${value} ${way === "less" ? "少于" : "多于"} ${count} 项`],
  [/^(.+) does not match (".+")$/u, (value, pattern) => `${value} 不符合 ${pattern}`],
  [/^(.+) is (less|greater) than (or equal to )?the (?:minimum|maximum) of (\S+)$/u, (value, way, equal, limit) =>
    `${value} ${way === "less" ? "小于" : "大于"}${equal === undefined ? "" : "或等于"} ${limit}`],
];

const nameOf = (at: string | undefined) => (at === "it" ? "内容" : `${at} `);
const both = (at: string | undefined, ...parts: (string | undefined)[]) => (parts.includes(undefined) ? undefined : `${nameOf(at)}${parts.join("，")}`);

function worded(text: string): string | undefined {
  // A fault of a value that a schema describes stands behind its place.
  const [, at, why] = /^([\w.-]+): (.+)$/u.exec(text) ?? [];
  const inner = why === undefined ? undefined : worded(why);
  if (inner !== undefined) return `${at}：${inner}`;
  for (const [form, words] of FORMS) {
    const found = form.exec(text);
    const chinese = found === null ? undefined : words(...found.slice(1));
    if (chinese !== undefined) return chinese;
  }
  return undefined;
}

/** The fault in Chinese; undefined for a sentence of another form. */
export function fault(message: string): string | undefined {
  const text = worded(message.replace(PREFIX, ""));
  return text === undefined ? undefined : `${text}。`;
}
